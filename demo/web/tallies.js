// Says below each form what is left of its tally and what the next one costs, as
// the endpoint of its policy tells everybody who asks.

// A browser computes some three million hashes a second; a slow phone, a quarter of that.
function effort(hashes) {
	const seconds = hashes / 3e6;
	return seconds < 1 ? "less than a second of work" : seconds < 90 ? `about ${Math.ceil(seconds)} seconds of work` : `about ${Math.ceil(seconds / 60)} minutes of work`;
}

// In the largest unit that does not mislead, as the element says it.
function later(seconds) {
	const [size, unit] = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]].find(([size]) => seconds >= 2 * size || size < 2);
	return new Intl.RelativeTimeFormat("en").format(Math.ceil(seconds / size), unit);
}

async function show(line) {
	const response = await fetch(`/tally/${line.dataset.tally}/challenge`);
	if (!response.ok) {
		const seconds = response.headers.get("Retry-After");
		line.textContent = seconds ? `Nothing is left, and no work buys more. There will be more ${later(+seconds)}.` : "";
		return;
	}
	const { needed, left, work: price } = await response.json();
	const tally = left === undefined ? "You have no tally of your own yet." : `${left} left on your tally.`;
	const cost = price === undefined ? "" : price === 0 ? " The next proof is free." : needed ? ` The next request costs your browser ${effort(price)}.` : ` More than that costs your browser ${effort(price)}.`;
	line.textContent = tally + cost;
}

for (const line of document.querySelectorAll("[data-tally]")) {
	show(line).catch(() => {});
}
addEventListener("tally-state", ({ target, detail }) => {
	if (detail.state !== "done") return;
	const line = target.parentElement.querySelector("[data-tally]");
	if (detail.work && line) line.textContent = `Your browser has done ${effort(detail.work)}.`;
});

// The states of the element, side by side.
const states = document.querySelector(".states");
states.hidden = false;
states.querySelector(":scope > button").addEventListener("click", () => {
	for (const check of states.querySelectorAll("tally-check")) {
		check.reset();
		check.verify();
	}
});
