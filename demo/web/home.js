// The attack: the server draws each picture, and this script puts it in. The form: what becomes of each message.

import { solve } from "/tally/contact/tally.js";

const $ = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
document.querySelectorAll(".scripted").forEach((e) => { e.hidden = false; });

// --- The attack

const plan = $("plan"), go = $("go");
let events;

function stop() {
	events?.close();
	events = undefined;
	go.textContent = "Attack";
}

function start() {
	stop();
	events = new EventSource(`/attack?${new URLSearchParams(new FormData(plan))}`);
	go.textContent = "Stop";
	events.onmessage = ({ data }) => {
		const fresh = new DOMParser().parseFromString(data, "text/html").getElementById("arena");
		if (fresh) $("arena").replaceWith(fresh);
	};
	events.addEventListener("end", stop);
	events.onerror = stop; // the picture stays as it is
}

plan.addEventListener("submit", (e) => {
	e.preventDefault();
	events ? stop() : start();
});
plan.addEventListener("input", ({ target }) => {
	const shown = target.parentElement.querySelector("output");
	if (shown) shown.textContent = target.value;
});
plan.addEventListener("change", start);
document.addEventListener("visibilitychange", () => document.hidden && stop());
if (!calm) start(); // who asked for little motion presses the button

// --- The form

const send = $("send"), tag = $("tag"), marks = $("marks");
let token = "", busy = false;

function say(words) { $("said").textContent = words; }

// show decodes the token, as any program can: only the signature needs the secret.
function show() {
	const claims = token && JSON.parse(atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
	$("token").textContent = token ? JSON.stringify(claims) : "None. The next answer brings one.";
	tag.lastElementChild.textContent = claims ? claims.t[2] : "–";
}

const at = (name) => tag.dataset[name].split(" ");
const place = ([x, y]) => ({ transform: `translate(${x}px, ${y}px)` });

// travel moves the token along the wires, and lights the box that has answered.
async function travel(instance, admitted) {
	const box = document.querySelector(`[data-box="${instance}"]`);
	if (!box) return;
	const there = [box.x.baseVal.value - 4, box.y.baseVal.value + 14];
	if (!calm) await tag.animate([place(at("home")), place(at("balancer")), place(there), place(at("home"))], { duration: 450, easing: "ease-in-out" }).finished;
	document.querySelectorAll("[data-box]").forEach((b) => b.classList.remove("in", "out"));
	box.classList.add(admitted ? "in" : "out");
}

function mark(instance, admitted) {
	const li = document.createElement("li");
	li.className = admitted ? "in" : "out";
	li.innerHTML = `<span class="unseen">${admitted ? "admitted" : "refused"} by instance </span>${+instance}`;
	marks.append(li);
	while (marks.children.length > 34) marks.firstElementChild.remove();
}

async function sendForm(count) {
	let admitted = 0, last, instance;
	for (let n = 0; n < count; n++) {
		const headers = { Accept: "application/json" };
		if (token && !$("throw").checked) headers["Tallystick-Token"] = token;
		last = await fetch(send.action, { method: "POST", body: new URLSearchParams(new FormData(send)), headers, credentials: "omit" });
		if (last.status !== 429 && !last.ok) return say(`The demo answers ${last.status}.`);
		instance = last.headers.get("Demo-Instance");
		token = $("throw").checked ? "" : last.headers.get("Tallystick-Token") || token;
		if (last.ok) admitted++;
		const moved = travel(instance, last.ok);
		if (count === 1) await moved;
		mark(instance, last.ok);
		show();
		if (count > 1 && !calm) await new Promise((next) => setTimeout(next, 110));
	}
	if (count > 1) return say(`${count} sent: ${admitted} admitted, ${count - admitted} refused.`);
	say(last.ok ? `Admitted by instance ${instance}.` : `Refused by instance ${instance}. The next passes in ${last.headers.get("Retry-After")} seconds, or after some work.`);
}

// buy is all that it takes: a challenge, its solution, and the token that it is redeemed for.
async function buy() {
	say("Your browser is working.");
	const started = performance.now();
	const terms = await fetch("/tally/contact/challenge", { credentials: "omit" });
	if (!terms.ok) return say(`No tally is for sale now (${terms.status}).`);
	const { challenge, work } = await terms.json();
	const bought = await fetch("/tally/contact/redeem", { method: "POST", headers: { "Tallystick-Proof": await solve(challenge) }, credentials: "omit" });
	if (!bought.ok) return say(`The proof was not accepted (${bought.status}).`);
	token = bought.headers.get("Tallystick-Token") || token;
	$("throw").checked = false;
	show();
	say(`Bought for about ${work.toLocaleString("en")} hashes in ${((performance.now() - started) / 1000).toFixed(1)} seconds: a tally of your own, with a count of its own.`);
}

// once does one thing at a time. No button is disabled, which would take the focus from it.
async function once(event, what) {
	event.preventDefault();
	if (busy) return;
	busy = true;
	send.setAttribute("aria-busy", "true");
	try {
		await what();
	} catch {
		say("The demo does not answer.");
	}
	send.removeAttribute("aria-busy");
	busy = false;
}

send.addEventListener("submit", (e) => once(e, () => sendForm(+(e.submitter?.value || 1))));
$("buy").addEventListener("click", (e) => once(e, buy));
$("throw").addEventListener("change", () => {
	if ($("throw").checked) token = "";
	show();
});
