// SPDX-License-Identifier: Apache-2.0

// Package gossip keeps what processes tell each other of the tallies that they count, and says how much each
// of them may admit before the others have heard of it. It has no clock, no network and no goroutine: package
// peers carries what it says, and package limiter asks it under the locks of a tally.
//
// # The rule
//
// The code names each point by its number, such as rule 7.
//
//  1. A process has a random name for each start. A tally has a 64-bit key, a keyed hash of policy and identity, and
//     each of its limits another. What a process does not count it keeps and acknowledges all the same.
//  2. A record is of one limit of a tally in one window. It holds a pair for each process: plus, what the process has
//     admitted, and minus, what it has given back since. Only a process itself raises its pair. Pairs are absolute,
//     and merged by the larger: a message that is lost, doubled or late does no harm.
//  3. s is the sum of all pairs, plus less minus; c is what token and memory say; m = max(c, s). An admission sets
//     c = m + cost. Where a peer's minus rises, c falls as much. When the window ends prev = max(c, s), and pairs are
//     dropped.
//  4. A request is refused if and only if m, what of prev still weighs, and its cost are above the limit. Networks and
//     bought tallies have records too.
//  5. u is a process' own plus, less what all live peers have acknowledged. The slack f is max(2, ⌈L/50⌉), and 1 for a
//     bought tally or where L < 2N. Where a limit counts by outcome, a request counts in plus from the beginning, and
//     in minus if it turns out to be free. What is under way when a window ends counts in the next.
//  6. A request is admitted if u = 0 or u + cost ≤ f. Else it waits, and is decided anew at each acknowledgement; after
//     250 ms it is answered 503, and nothing is counted. No more requests wait for a tally than have room.
//  7. A process tells its pair when half of f is untold (two requests at least, where f is more than one), when a
//     request waits, and at once after a refund. A pair that was told before in its window goes with whatever is told.
//  8. One batch at a time is under way to each peer: at once if a request waits, or where f is more than two the next
//     would; else each 500 ms, and at least 5 ms apart.
//  9. An answer acknowledges a batch, and says no more. Of batches that have no room for all, the last acknowledges.
//  10. A peer that owes an answer for 100 ms is late: no request waits for it. It is told on, and is back when it has
//     caught up.
//  11. A process that starts says hello to all, which then tell it what the others have not acknowledged, and takes
//     over all records of one. Before that an acknowledgement frees nothing.
//  12. A process that ends tells what is untold, and waits for the acknowledgements.
//  13. A window that begins later than clocks may differ is not merged. One ahead within that has begun, as a token's
//     has. A request that is asked late, of a window before the one that has begun, counts in that one.
//  14. A bucket has a record of its aligned window: at any time its debt is at least what all have admitted since the
//     beginning of this window, or of the one before, less what has leaked since.
//  15. A spent proof has a record, and is told first. It is spent when all live peers have acknowledged that, and no
//     pair of another process is there: of two processes that are shown it at once, neither spends it, or one. A
//     tally that is sold has a record too, which names its buyers. A process that did not know of it counts one sale
//     to each: what is counted is a set of tallies. A process that has sold to a buyer sells to it again when all live
//     peers have acknowledged that.
//  16. In a full set of 16 records the smallest makes room; of two that are alike, what took no work. What it said is
//     still in c.
//  17. A record tells 64 other processes apart. One that is gone gives up its place to another: what it has counted
//     stays in the sum, and is passed on, but without its name. No pair of that name counts beside it. If the process
//     is back, all without a name is forgotten.
//
// # Why it is so
//
// No client is refused under the limit: each pair counts admissions that happened, no two pairs count the
// same, and what was given back is subtracted by each process that has heard of it. So s is no more than the
// truth, and c is no more (docs/proof.md), and after an admission m + cost is no more.
//
// N processes admit at most L + (N+C−1)·max(f, cost) in a window in which C of them start. Let j admit last:
// then s ≤ L at j. Of each other process, dead or alive, j lacks what that has admitted and j has not
// acknowledged. That was at most f, or one request, when it admitted for the last time: acknowledged means
// that all live peers have merged it. If j started later, it has what was acknowledged from the records that
// it took over, and the rest it is told. A late peer is one that does not hear: where processes fall into P
// parts that do not hear each other, each part has its last.
//
// A proof is spent once, for let i spend it first: each other has acknowledged the pair of i before, and so
// refuses it. In P parts it is spent P times at most.
//
// No process counts more sales than tallies were sold, and of each other process it lacks one at most: that
// has sold no second to the buyer before all had heard of the first.
//
// The N of f is the most processes that a process has heard at once since the window began: f of 5 stays 1
// while one of three is replaced. A process that starts when one was dropped has not heard that one, and a
// fleet that grows had less: the bound has the largest f in force in the window.
//
// proof/model explores this code, with two processes and three, in every order of messages, deaths and
// starts, and says what that has decided.
package gossip
