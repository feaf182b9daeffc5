// Says below each form what is left of its tally and what the next one costs, as
// the endpoint of its policy tells everybody who asks.
const work = (hashes) => `${hashes.toLocaleString()} hashes of work`;

async function show(line) {
	const response = await fetch(`/tally/${line.dataset.tally}/challenge`);
	if (!response.ok) {
		const seconds = response.headers.get("Retry-After");
		line.textContent = seconds ? `Nothing is left, and nothing is for sale for ${seconds} seconds.` : "";
		return;
	}
	const { needed, left, work: price } = await response.json();
	const tally = left === undefined ? "You have no tally of your own yet." : `${left} left on your tally.`;
	const cost = price === undefined ? "" : price === 0 ? " The next proof is free." : needed ? ` The next request costs ${work(price)}.` : ` More than that costs ${work(price)}.`;
	line.textContent = tally + cost;
}

for (const line of document.querySelectorAll("[data-tally]")) {
	show(line).catch(() => {});
}
addEventListener("tally-state", ({ target, detail }) => {
	if (detail.state !== "done") return;
	const line = target.parentElement.querySelector("[data-tally]");
	if (detail.work) line.textContent = `Solved: ${work(detail.work)}.`;
});
