import { h } from "vue";

export const App = ({ check }) => h("main", [
	h("form", { id: "signup", method: "post", action: "/signup" }, [h("input", { name: "message", value: "hello" }), h("button", { id: "send" }, "Send")]),
	h("tally-check", { ...check }),
]);
App.props = ["check"];
