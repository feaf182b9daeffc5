import "@tallystick/tally";
import { h, hydrate, render } from "preact";
import { first, then } from "./props.js";

const App = ({ check }) => h("main", null,
	h("form", { id: "signup", method: "post", action: "/signup" }, h("input", { name: "message", value: "hello" }), h("button", { id: "send" }, "Send")),
	h("tally-check", check));
const box = document.querySelector("#app");
(box.hasChildNodes() ? hydrate : render)(h(App, { check: first }), box);
window.update = () => render(h(App, { check: then }), box);
window.rendered = true;
