// SPDX-License-Identifier: Apache-2.0

// Package limiter decides. It compiles limits to
// step functions over a tally, a handful of integers that a client can carry,
// and keeps a memory of fixed size as a floor under what clients show. It knows
// no HTTP, does no I/O and reads no clock: now is an argument of every decision.
//
// # What it does not promise
//
//   - A tally proves nothing. A client that can write one can write any; signing is
//     the work of internal/token. A client that can read one can show an older one.
//   - Without a memory nothing bounds a client that shows an old tally again, or
//     none: a decision by [Policy.Step] alone, or by [Memory.Take] with a nil memory, is
//     for clients that are trusted to echo.
//   - With a memory the bound holds for one process and one life of it. Over N
//     instances and C restarts in a window, a client that drops its tallies gets
//     up to (N+C)·L in that window, where an honest one gets L. Exact totals over
//     instances need a shared counter, which this is not.
//   - An honest client that sends B requests at once to N instances gets up to
//     min(B, N+C)·L, because none of them has seen the others yet, if it keeps the tally with
//     the highest count. It gets up to (N+C)·L if a late answer replaces that tally.
//   - A [Memory] that is full of live counts may refuse new tallies early, and
//     reports the count with which they began ([Verdict.Inherited]). It never counts one too low.
//   - A clock that jumps forward makes time pass; quotas come back with it. One
//     that stepped back and comes to a window again grants its quota again.
//
// What it does promise: while clocks go forward and agree (see Clocks), no tally
// that is under its limits is refused, whatever tallies are shown in whatever
// order, except as a newcomer to a full memory, or by a [Network] that is over
// its own; and whatever the clocks of others
// say, a memory admits for one tally, in each window, no more than the quota. (A
// window may begin early, where another clock is ahead.)
//
// # Words
//
// A limit ([Limit]) is a quota per window, with an algorithm. A policy ([Policy])
// is a named set of limits; all of them are checked, then all are charged, or
// none is. Its tiers are policies of the same shape ([Policy.SameShape]): the
// same limits, which differ in quota and burst only. A tally ([Tally]) says how much of each
// limit one client, or all clients behind one address, has used. It never says what remains,
// so that a changed quota applies at once. All tokens that descend from one first token
// belong to one tally. A candidate ([Candidate]) is a tally as a request shows it. A network ([Network]) is a count of many
// clients, beside their tallies. A memory ([Memory]) holds the highest counts seen of each tally. It is never a source of
// truth, only a floor: a decision is made on the larger of what is shown and what is remembered, number by number, and both
// count parts of what was admitted, so the larger does not exceed the truth.
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
// capable of scaling to millions of domains"): the part of the previous window
// that still lies within the last W counts, as if its requests had been spread
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
// may admit less: a quota of 7 a minute is one every 8.571429 s, and a quota
// above a million a second admits a million a second. A new rate or a larger burst applies at once. Under a smaller burst
// the client waits until the debt fits.
//
// A cost above the quota (of buckets: the burst) is refused as [Verdict].Impossible.
//
// A debt is stored as time, so it survives a change of tier. A
// smaller tier forgives a tally nothing if it knows the larger one ([Policy.WithTiers]).
// If no tier has a bucket for a debt of this size any more, it is cut down to a full
// bucket and its overdraft.
//
// A cost of 0 peeks: it is admitted and charges nothing. A negative cost panics.
//
// # Settled costs
//
// The cost of a request may be known later. [Memory.Record] charges the rest, whether or not
// there is room, and [Memory.Restore] refunds what was too much. A count then goes beyond its
// quota. A bucket may go into debt beyond its burst by at most B·T + W, as much as it admits in
// a window. The rest is lost. So the debt is never more than 2·B·T + W,
// and is waited for and paid like any other.
//
// Let U be the largest sum by which the requests under way at one time were underestimated. Then
// the requests that one memory admits have cost, in the end, at most
//
//	windows   L + U in an aligned window
//	buckets   B + ⌊t/T⌋ + U in any span t up to W; in a longer one max(0, U − B − ⌊W/T⌋)
//	          more for each W in it
//
// For a bucket: when the last request of a span is admitted, the debt is at most B with its
// estimate. All that was settled until then is in the debt, if nothing was lost; what is settled
// later is part of U. If something was lost, the debt was 2·B·T + W; refunds may take back B·T of
// that, which is what the estimates under way can be; and so nothing was admitted for more than W.
// Each time no more is lost than U is larger than an overdraft: nothing, if U ≤ B + ⌊W/T⌋. A
// burst that is raised, by a tier or a configuration, lets in at once what it has room for, and U
// with it once more.
//
// A mark is a time, so an overdraft could be the fault of a clock (see Clocks). Therefore a
// [State] says, apart from the mark, by how many seconds that is an overdraft, and as time pays it
// says less. No more than that is believed beyond a bucket's burst; a tally that has no overdraft
// says 0, and a wrong clock costs it what it did without any. Rejected were: to believe as much of
// every mark, or of every flagged mark, which would make a client wait for up to an overdraft
// because a clock was wrong; to count the overdraft in units beside the mark, because the
// maximum of two tallies would no longer be a lower bound, since both numbers fade; to
// keep it in memory alone, where the next instance would not hear of it; and no end of it, by
// which one settlement that was a mistake would lock a client out, and keep its cell, for as
// long as 2³¹ takes.
//
// # Clocks
//
// The clocks of instances may differ by min(5 s, W/10) for each limit, the skew.
// What a difference does depends on the algorithm, and proof/model/README.md has figures.
//
//	windows   A tally that is ahead of the clock by no more than the skew is
//	          evaluated at the start of its own window, which so begins early for
//	          that tally: the clock that is ahead sets the window. Close to
//	          the limit a request may be refused, or admitted, in the seconds
//	          around a boundary. A window further ahead is as if absent.
//	buckets   A mark is an absolute time, so a difference of D between two clocks
//	          is D of debt that does not exist, on the instance that is behind: the
//	          burst is smaller there by ⌈D/T⌉. A tally is refused under its limit
//	          only if it would be with that much more debt. Of a LeakyBucket D
//	          must be less than what the time between two requests exceeds T by.
//
// Use a window if your clocks do not agree to within T. No tolerance is taken off a
// mark: a client that alternates between two instances would gain it each time.
// [Verdict].Wait is by the clock of the instance that answers. At an instance that is
// behind by D, a client that returns on time may have to wait D more.
//
// A mark that is further ahead than the largest bucket among the tiers can be owed (the
// time in which it empties, see [Policy.WithTiers]), what it says of an overdraft, and the skew,
// is from a clock that went wrong. If the memory knows the tally, it ignores the mark and decides by
// its own count, so that echoing a tally is no worse than dropping it. Otherwise
// the mark is cut down to the largest debt of that bucket plus the overdraft,
// which is remembered, and is news for the client ([Policy.Exceeds]).
//
// A memory cannot dismiss what it holds. When the clock has stepped back by more
// than the skew, counts are moved to the present window, the fuller of the two
// for the present one; and a bucket's mark, where it is further ahead than the
// bucket that wrote it can owe, by up to twice its time, is moved to where that
// bucket is spent. So a step back hands out no quota. Every client that shows its
// newest tally, or none, is back to normal within two windows and the skew of its next
// request. For a bucket it takes the time in which the bucket empties and the skew; if
// only the token knows the debt, the largest bucket among the tiers counts. A client with an
// overdraft is back within twice the time that it owes. Cells that end more than a
// day later than any limit in use can reach were written under a wrong clock, and
// are free.
//
// Before 1970 time stands still. Memories end with their 32-bit seconds, in
// February 2106, and remember nothing from then on; tallies do not end.
//
// # Memory
//
// A memory for F clients of K limits has S = ⌈6·F/16⌉ sets of 16 cells for each limit, under
// min(1024, max(1, ⌊S/64⌋)) locks with the same number of sets each, S rounded up
// to that. It takes
//
//	272 bytes a set and limit + 8,200 bytes a limit + 64 bytes a lock
//
// from the start and for ever, and besides 8 bytes a client for a [TokenCache], and 3·⌈F/4⌉ cells of 16 bytes and
// 8,200 bytes, for what is paid for with work. Passes ([Policy.Pass]) are counted apart, in ⌈3·F/16⌉ sets for each limit that
// they have, which take as much a set: a flood that pays nothing cannot fill them, and what a
// pass has used does not fade while it lives. [Memory.Size] is the sum: 7.7 MiB for the default of 65,536 clients with one
// limit, 14.1 MiB with two. Each limit has cells of its own. When a configuration
// changes, [Memory.Retain] keeps the cells of limits that stay and of passes that live. A client takes one cell for each
// limit, and one more for each [Network]: two for the networks of IPv6.
//
// Nothing runs in the background: a cell is free when its windows have passed, two of
// them after the last count. A tally that finds its set full takes the cell with the
// smallest count (for sliding windows by its present weight). The old count of that cell
// raises the floor of its set, number by number to the larger one. A tally that has no
// cell begins with the floor. So for each tally, at any time, its cell or the floor counts no
// less than what was admitted for it: by induction over the evictions. This holds for any
// choice of the cell; the smallest keeps the floor low. This is Space-Saving (Metwally,
// Agrawal and El Abbadi, 2005) for counts that fade. There the newcomer goes on from the count
// that it takes, which is enough if counts only grow. But the larger of two fading counts can
// be the smaller one later, and an expired cell would begin at zero: both would give the tally
// that was forgotten first a second quota.
//
// While sets are full, the newcomers of one [Candidate.Provider] that has claimed a quarter
// of a limit's cells within two windows, and of all that was claimed, take no more cells from
// others: they share one in each set, and its count, with the same limit. So a network can
// raise the floor for others by one cell a set beyond its quarter.
//
// If f of c cells of the limit are in use, a tally's set is full with the probability
//
//	P(X ≥ 16), X Poisson of mean 16·f/c
//
// or 2.6·10⁻⁸ when the memory carries as many clients of IPv4 as it was made for, and 0.8 %
// with as many of IPv6 that are in no network together. Tallies are known by a 64-bit hash
// under a seed of the memory's own. A cell keeps 32 bits of the hash.
//
// # Units
//
//	now                   any time.Time; decided in whole microseconds, rounded down
//	State.At              windows since 1970; of buckets, microseconds since 1970
//	State.Cur, Prev       cost; of buckets, Cur is seconds
//	Policy.Expires        Unix seconds
//	Memory.Size           bytes
//
// # Configuration errors
//
// [Compile] reports all problems, each a [Problem].
// Nothing else returns an error; programming errors (a negative cost, no tally
// to choose from, a factor below 1) panic.
//
// # Own tallies
//
// Clients that share an address share its tally. Package middleware sells a client a tally of its own
// for work. It is charged under a pass ([Policy.Pass]), a policy of the same shape
// and for the same tokens: limits with windows longer than Memory have a part of their quota
// in it, which does not come back while the tally lives ([Policy.PassLife]). The state of a
// window's limit has another meaning there: Cur is all that was used, in whichever window, and
// a request passes if and only if cur+cost ≤ L. No clock matters to it. A bucket's pass is a slower bucket.
// Memory may change while passes live. What was used counts under the new one, as used now where its limit
// has its whole quota again, and is remembered until the tally ends ([Candidate].Ends), also while there
// is no policy of passes.
//
// A [Proof] with a [Candidate] buys one request instead. It is spent if and only if
// the request is admitted; where there is no room to remember that, the request is refused
// ([Verdict.Saturated]).
package limiter
