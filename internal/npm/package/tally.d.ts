import type { TallyError } from "./fetch.js";

export { prove, tallyFetch, ticket } from "./fetch.js";
export type { ProveOptions, TallyError, TallyFetchOptions, Terms } from "./fetch.js";
export { solve } from "./solver.js";
export type { SolveOptions, SolveReason } from "./solver.js";

/** The value of `data-state`. */
export type TallyState = "idle" | "working" | "waiting" | "done" | "error";

/** The value of `data-reason`: what stands in the way. */
export type TallyReason = "limit" | "dear" | "slow" | "offline" | "server" | "forbidden" | "setup" | "cookies" | "frame" | "error";

/** The detail of the event "tally-state". */
export interface TallyStateDetail {
	state: TallyState;
	reason?: TallyReason;
	/** The seconds of a wait. */
	wait?: number;
	error?: TallyError;
	/** What was paid, in expected hashes, and for how many seconds it is good. */
	work?: number;
	"expires-in"?: number;
}

/** The detail of the event "tally-progress". */
export interface TallyProgressDetail {
	done: number;
	total: number;
	/** The milliseconds that are left, once that can be told. */
	left: number | undefined;
}

/**
 * The element tally-check, which proves work for the form it is in. To import this module
 * defines it. Its attributes are in docs/forms.md.
 */
export class TallyCheck extends HTMLElement {
	static readonly formAssociated: true;
	/** The form that it is in. What is set is the id of another one. */
	get form(): HTMLFormElement | null;
	set form(id: string | null);
	/** Challenge.Path. */
	get endpoint(): string;
	set endpoint(path: string | null);
	get auto(): string;
	set auto(when: "focus" | "off" | "" | null);
	get cost(): number;
	set cost(cost: number | string | null);
	get maxWork(): number;
	set maxWork(work: number | string | null);
	disabled: boolean;
	/**
	 * Proves what the next request needs, now, and returns whether that went well. Of many calls at
	 * once, one works. If quietly is true, a failure is not shown.
	 */
	verify(quietly?: boolean): Promise<boolean>;
	/** Ends what is under way. What was bought stays bought. */
	reset(): void;
}

/** The attributes of tally-check in JSX. All but the first are optional: see docs/forms.md. */
export interface TallyCheckAttributes {
	endpoint: string;
	form?: string | null;
	auto?: "focus" | "off" | null;
	cost?: number | string | null;
	"max-work"?: number | string | null;
	maxWork?: number | string | null;
	disabled?: boolean;
	hidden?: boolean;
	id?: string;
	[text: `text-${string}` | `data-${string}`]: string | undefined;
	/** What the framework at hand knows of every element, such as class, ref, key and children. */
	[other: string]: unknown;
}

declare global {
	namespace JSX {
		interface IntrinsicElements {
			"tally-check": TallyCheckAttributes;
		}
	}
	interface HTMLElementTagNameMap {
		"tally-check": TallyCheck;
	}
	interface HTMLElementEventMap {
		"tally-state": CustomEvent<TallyStateDetail>;
		"tally-progress": CustomEvent<TallyProgressDetail>;
	}
	interface DocumentEventMap {
		"tally-state": CustomEvent<TallyStateDetail>;
		"tally-progress": CustomEvent<TallyProgressDetail>;
	}
}
