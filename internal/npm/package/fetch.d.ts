import type { SolveOptions, SolveReason } from "./solver.js";

/** The options of {@link tallyFetch}, beside those of fetch. */
export interface TallyFetchOptions extends Omit<SolveOptions, "signal"> {
	/**
	 * Carry tokens in the field, not by cookie. Default: false for the page's own origin and
	 * where credentials are "include"; otherwise true.
	 */
	header?: boolean;
}

/**
 * Is fetch, but echoes tokens, and where a refusal offers a challenge it solves it and sends the
 * request again. What it cannot answer it returns as it is. A proof that the server fails to answer
 * goes along with the next request of the same method and path.
 *
 * Of another origin it follows no redirects, unless `redirect` is set: then it throws a TypeError
 * with the `reason` "redirected".
 */
export function tallyFetch(input: RequestInfo | URL, init?: RequestInit, options?: TallyFetchOptions): Promise<Response>;

/** The options of {@link prove}. */
export interface ProveOptions extends SolveOptions {
	/** What the next request costs. Default: 1. */
	cost?: number;
	/** A challenge that is at hand. Default: the endpoint is asked for one. */
	challenge?: string;
	/** Is told the reason of the refusal, such as "price-risen", before the next challenge is solved. */
	onagain?: (reason: string | undefined) => void;
}

/** What the server says of the next request. */
export interface Terms {
	/** Whether it needed work. */
	needed: boolean;
	/** What the limits have left, where they were asked. */
	left?: number;
	/** Whether something that was bought came along. */
	carried?: boolean;
	challenge?: string;
	/** The seconds in which the proof was to be there. */
	ttl?: number;
	/** The price, in expected hashes. */
	work?: number;
	/** For how many seconds what was bought is good; after a purchase only. */
	"expires-in"?: number;
}

/** The errors of this package; those of fetch are TypeErrors, and the signal's are its own. */
export interface TallyError extends Error {
	reason?: SolveReason | "no-cookies" | "setup" | "redirected";
	/** What the endpoint answered. */
	status?: number;
	/** The seconds of its Retry-After; 0: none. */
	wait?: number;
	/** Its problem details (RFC 9457), if it sent any. */
	terms?: Record<string, unknown> | null;
}

/**
 * Makes sure that the next request is admitted, as far as a proof can: asks the endpoint (the
 * server's Challenge.Path) and, if work is needed, solves and redeems, so that a cookie
 * carries what was bought. Throws a {@link TallyError}; what was solved by then is used by the next call.
 */
export function prove(endpoint: string, options?: ProveOptions): Promise<Terms>;

/** Takes a place in the waiting room, or keeps the one there is. Throws where waiting is no way in. */
export function ticket(
	endpoint: string,
	options?: { signal?: AbortSignal; cost?: number },
): Promise<{ wait: number; carried: boolean }>;
