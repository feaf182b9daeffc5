// SPDX-License-Identifier: Apache-2.0

// Package storeless says what a limit means: a quota per window, with an algorithm ([Limit]). It is
// plain data. Package middleware takes it, and so do the counters of middleware/exact; a [Verdict]
// says how each limit stands after a decision, and a [ConfigError] what is wrong with a limit.
//
// What a client, or all behind one address, has used of each limit is a tally: never what
// remains, so that a changed quota applies at once. A policy is a named set of limits; all of
// them are checked, then all are charged, or none is.
//
// # Algorithms
//
// L is the quota, W the window, B the burst, T the interval of a bucket.
//
//	algorithm      state            admits at most
//	-------------  ---------------  ------------------------------------------
//	SlidingWindow  two counts       L in an aligned window, and at any instant;
//	                                2L−1 in any span of W
//	FixedWindow    one count        L in an aligned window; 2L in any span of
//	                                W, and around a boundary in the shortest
//	TokenBucket    one time mark    B at any instant; B + ⌊W/T⌋ in any span of W
//	LeakyBucket    one time mark    1 at any instant; 1 + ⌊W/T⌋ in any span of W
//
// Windows are aligned to the Unix epoch. The sliding window counter is the one
// that Cloudflare described in 2017 (Julien Desgats, "How we built rate limiting
// capable of scaling to millions of domains"): of the previous window as much
// counts as still lies within the last W, as if its requests had been spread
// evenly. A request of some cost, e after the start of the present window,
// passes if and only if
//
//	prev·(W−e) + (cur+cost)·W ≤ L·W
//
// This is computed in whole microseconds and in products of 128 bits: there is
// no rounding and no float, up to the largest quota and the longest window. A
// fixed window is the same with prev = 0.
//
// The buckets are the generic cell rate algorithm (GCRA) of ITU-T I.371, in its
// virtual scheduling form. Their state is the theoretical arrival time, TAT. With
// debt = max(0, TAT−now), a request passes if and only if
//
//	debt + cost·T ≤ B·T        and then TAT = max(TAT, now) + cost·T
//
// T is W/L rounded up to a microsecond, so rounding never admits more than L; it
// may admit less: a quota of 7 a minute comes every 8.571429 s, one above a
// million a second comes at a million a second. A debt is
// time: a new rate or a larger burst applies at once to what comes after; under a smaller burst the client
// waits until the debt fits.
//
// A cost above the quota (of buckets: the burst) is refused as [Verdict.Impossible].
//
// # Waiting
//
// [Verdict.Wait] is true: at now+Wait the same request passes if nobody else of
// the tally asks, and a second earlier it does not. So is [LimitStatus.Reset], the
// parameter t of the RateLimit field of package middleware:
// for a limit that blocks, the time until it would not; for others the time until
// what remains next rises. Callers who send them add jitter upwards only.
//
// # Clocks
//
// The clocks of instances may differ by min(5 s, W/10) for each limit, the skew.
// What a difference does depends on the algorithm, and proof/model/README.md has figures.
//
//	windows   A tally that is ahead of the clock by no more than the skew is
//	          evaluated at the start of its own window, which so begins early for
//	          that tally: the window is that of the clock that is ahead. Close to
//	          the limit a request may be refused, or admitted, in the seconds
//	          around a boundary. A window further ahead is as if absent.
//	buckets   A mark is an absolute time, so a difference of D between two clocks
//	          is D of debt that nobody owes on the instance that is behind: the
//	          burst is smaller there by ⌈D/T⌉. A tally is refused under its limit
//	          only if it would be with that much more debt. Of a LeakyBucket D
//	          must be less than what the time between two requests exceeds T by.
//
// Use a window if your clocks do not agree to within T. No tolerance is taken off a
// mark: a client that goes to and fro between two instances would gain it each time.
// [Verdict.Wait] is by the clock of the instance that says it; on another one, that is
// behind by D, a client that returns on the dot may have to wait D more.
//
// # Units
//
//	Limit.Window          whole seconds, 1 s to 366 days
//	Limit.Quota, Burst    cost, 1 to 2³¹−1; B·W/L at most 366 days
//	cost                  any unit the caller likes; a request usually costs 1
//	Verdict.Wait          whole seconds, rounded up; so is LimitStatus.Reset
//	Verdict.Inherited     cost
//
// # Configuration errors
//
// Constructors, such as those of package middleware, refuse what cannot be meant, all of it at once,
// each problem a [ConfigError] with the field and what is permitted. What a default would have
// said besides, because it follows from the same mistake, is not repeated.
package storeless
