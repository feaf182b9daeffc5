import { tallyFetch, solve, prove, ticket, TallyCheck, type TallyError } from "@tallystick/tally";
import { tallyFetch as bare } from "@tallystick/tally/fetch.js";

const element = document.querySelector("tally-check");
element?.addEventListener("tally-state", (event) => {
	const state: "idle" | "working" | "waiting" | "done" | "error" = event.detail.state;
	const seconds: number | undefined = event.detail.wait;
	console.log(state, event.detail.reason satisfies string | undefined, seconds, event.detail.error?.status);
});
document.addEventListener("tally-progress", ({ detail }) => console.log(detail.done / detail.total, detail.left));
const made: TallyCheck = document.createElement("tally-check");
export const all: [Promise<Response>, Promise<string>, Promise<boolean>] = [
	tallyFetch("/api", { method: "POST" }, { header: true, maxWork: 2 ** 20 }),
	solve("challenge", { workers: 0, onprogress: (done, total, left) => console.log(done, total, left?.toFixed()) }),
	made.verify(),
];
made.reset();
prove("/tally/", { cost: 2 }).then((terms) => terms["expires-in"]).catch((error: TallyError) => error.reason === "no-cookies");
ticket("/tally/").then(({ wait, carried }) => wait + Number(carried));
bare(new URL("https://api.example"));
// @ts-expect-error there is no such option
tallyFetch("/api", {}, { retries: 3 });
Object.assign(made, { form: "id", disabled: true });
made.endpoint = "/tally/";
made.cost = made.cost + 1;
made.maxWork = "1024";
made.auto = null;
made.form = "signup";
export const form: HTMLFormElement | null = made.form;
// @ts-expect-error a state is read from data-state
made.state = "done";
