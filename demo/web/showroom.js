// The buttons of the showroom, without leaving the page. What they show is drawn by the server: this
// script puts in the newest picture, as the stream of events brings it.

import { solve } from "/tally/showroom/tally.js";

const $ = (id) => document.getElementById(id);
const PACE = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 110; // milliseconds between two of twenty
const send = $("send"), buttons = [...document.querySelectorAll(".buttons button")];
let busy = false;

function say(words) { $("said").textContent = words; }

// draw puts in a picture. Of two that overtake each other the newer stays.
function draw(html, always) {
	const fresh = new DOMParser().parseFromString(html, "text/html").getElementById("stage");
	const stage = $("stage");
	if (!fresh || !always && +fresh.dataset.steps < +stage.dataset.steps) return;
	stage.replaceWith(fresh);
	const thrown = "thrown" in fresh.dataset, focused = document.activeElement;
	$("throw").hidden = thrown;
	$("keep").hidden = !thrown;
	$("buy").hidden = thrown; // a token that is thrown away need not be bought
	// The button that was pressed has made room for its opposite.
	if (focused === $("throw") && thrown) $("keep").focus();
	if (focused === $("keep") && !thrown) $("throw").focus();
}

const events = new EventSource("/showroom/events");
let first = true;
events.onopen = () => { first = true; };
events.onmessage = ({ data }) => {
	draw(data, first); // of a server that was started anew, the first is right whatever was counted before
	first = false;
};

// see asks for the picture where no stream brings it, or not yet.
async function see() {
	const response = await fetch("/showroom/stage");
	if (response.ok) draw(await response.text());
}

async function post(url, body) {
	return fetch(url, { method: "POST", body, headers: { Accept: "application/json" } });
}

async function sendForm(count) {
	if (!send.reportValidity()) return;
	const body = new URLSearchParams(new FormData(send));
	let admitted = 0, last;
	for (let n = 1; n <= count; n++) {
		if (n > 1 && PACE) await new Promise((next) => setTimeout(next, PACE));
		last = await post(send.action, body);
		if (last.ok) admitted++;
		if (last.status === 422) return say(Object.values((await last.json()).errors).join(" "));
		if (last.status !== 429 && !last.ok) return say(`The demo answers ${last.status}.`);
		if (events.readyState !== EventSource.OPEN) await see();
	}
	await see();
	say(count === 1 ? $("stage").dataset.said : `${count} sent: ${admitted} admitted, ${count - admitted} refused.`);
}

async function begin(button) {
	const done = await post("/showroom/round", new URLSearchParams({ token: button.value }));
	if (!done.ok) return say(`The demo answers ${done.status}.`);
	await see();
	say($("stage").dataset.said);
}

// buy is all that it takes: a challenge, its solution, and what that is redeemed for, which
// comes as a cookie.
async function buy() {
	say("Your browser is computing.");
	const started = performance.now();
	const terms = await fetch("/tally/showroom/challenge");
	if (!terms.ok) return say(`No tally is for sale now (${terms.status}).`);
	const { challenge, work } = await terms.json();
	const proof = await solve(challenge);
	const bought = await fetch("/tally/showroom/redeem", { method: "POST", headers: { "Tallystick-Proof": proof } });
	if (!bought.ok) return say(`The proof was not accepted (${bought.status}).`);
	await see();
	const seconds = ((performance.now() - started) / 1000).toFixed(1);
	say(`Bought, for some ${work.toLocaleString("en")} hashes in ${seconds} seconds: a tally of your own, with a fresh count.`);
}

// once does one thing at a time. No button is disabled, which would take the focus from it.
async function once(event, what) {
	event.preventDefault();
	if (busy) return;
	busy = true;
	buttons.forEach((b) => b.setAttribute("aria-disabled", "true"));
	try {
		await what();
	} catch {
		say("The demo does not answer.");
	}
	buttons.forEach((b) => b.removeAttribute("aria-disabled"));
	busy = false;
}

send.addEventListener("submit", (e) => once(e, () => sendForm(e.submitter === $("twenty") ? 20 : 1)));
$("round").addEventListener("submit", (e) => once(e, () => begin(e.submitter)));
$("buy").addEventListener("click", (e) => once(e, buy));
$("buy").hidden = "thrown" in $("stage").dataset;
