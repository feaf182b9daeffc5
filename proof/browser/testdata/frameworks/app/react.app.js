import { createElement as h } from "react";

async function send(data) {
	const { status } = await fetch("/signup", { method: "POST", body: new URLSearchParams(data) });
	document.title = status === 200 ? "thanks" : status;
}

export function App({ check, byScript }) {
	const form = byScript ? { action: send } : { method: "post", action: "/signup" };
	return h("main", null,
		h("form", { id: "signup", ...form }, h("input", { name: "message", defaultValue: "hello" }), h("button", { id: "send" }, "Send")),
		h("tally-check", check));
}
