// SPDX-License-Identifier: Apache-2.0

// Package exact counts where a count is worth money: "1000 a day" means 1000, whichever
// instance is asked.
//
// A counter is as exact as its engine. An engine that loses what it has acknowledged, in a
// crash or a failover, forgets that much. Each package says what its engine can lose:
// [NewMemory] loses all with its process, and the packages below this one lose less. A counter
// is also one more thing that can be slow or down, on every request. Package middleware gives
// each call a deadline, and asks what should happen without an answer.
//
// # Fewer calls
//
// [Merge] makes one call of all that wait for the same key, and is as exact as its engine.
// It is for an engine of your own that is a [Batcher]; the counters of packages cas and redis merge by themselves. [Lease] takes blocks of quota
// ahead. It saves more calls, but refuses some calls too early: you choose.
//
// # Past, ahead, pause
//
// With Past a [Call] charges what was used already, although there is no room for it. With
// Ahead it is booked for the moment at which there is room. With Pause it has nothing of its
// key admitted for a while. Package pace makes of Ahead and Pause a queue for the calls of
// many processes.
//
// To admit k at once, take a [storeless.SlidingLog] of Quota k, and give the receipt back
// when what was admitted ends. What never ends counts for one Window.
//
// # A counter of your own
//
// An engine that can keep some bytes for a key needs no arithmetic: in one atomic step it
// loads an [Account], takes the call and, if the call was admitted, stores the account until
// it Expires. A refund is the same, with Refund. The account knows the last IDs, for all
// processes. An engine of one process may keep [Idempotency] beside it, which is not stored.
// When the store fails, the engine returns [ErrMaybeCounted], unless nothing was written for
// certain.
//
// An engine that does the arithmetic itself, in a script or in SQL, says how the account
// stood, and a [Snapshot] makes the verdict of it. An engine whose keys lie on several
// servers is [Parted]: it says on which server a key lies. Package cas has all of this for a
// store that replaces a value only if it has not changed. Package exacttest says whether a
// counter counts exactly.
package exact
