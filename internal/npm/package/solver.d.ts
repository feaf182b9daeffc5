/** What {@link solve} goes by. */
export interface SolveOptions {
	/** Ends the work. The promise is rejected with the signal's reason. */
	signal?: AbortSignal;
	/**
	 * Is told the candidates that are ruled out, those there are and, once that can be told,
	 * the milliseconds that are left.
	 */
	onprogress?: (done: number, total: number, left: number | undefined) => void;
	/** The highest price that is paid, in expected hashes. Default: 2 ** 28. */
	maxWork?: number;
	/** Workers that work beside the page, at most. 0: the page's own thread. Default: 4. */
	workers?: number;
}

/** Why a challenge was not solved. */
export type SolveReason = "malformed" | "too-much-work" | "unsolvable" | "too-slow" | "expired";

/**
 * Solves a challenge: the value of a Tallystick-Challenge field, or a promise of one, while which a
 * worker starts. Returns the proof: the value of
 * a Tallystick-Proof field. Its errors have a `reason`, a {@link SolveReason}, or are the signal's.
 */
export function solve(challenge: string | Promise<string>, options?: SolveOptions): Promise<string>;
