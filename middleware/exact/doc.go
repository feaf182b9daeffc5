// SPDX-License-Identifier: Apache-2.0

// Package exact counts where a count is worth money: "1000 a day" means 1000,
// whichever instance is asked.
//
// An exact counter is exact as long as its engine is: one that loses what it has
// acknowledged, in a crash or a failover, forgets that much. What each engine can
// lose stands in its package: [Memory] all, with its process; the packages file and
// redis below this one less. A counter is also one more thing that can be slow or
// down, on every request; package middleware gives it a deadline and asks what
// should happen without it.
//
// # Fewer calls
//
// [Merge] makes one call of those that wait for the same key, and is as exact as its
// engine; a [Batcher] that does not have it built in is put behind it. [Lease] takes
// blocks ahead, refuses some calls too early for it, and is a choice.
//
// # Past, ahead, pause
//
// A [Call] may charge what was used already, although there is no room for it (Past); may be
// booked for the moment at which there is (Ahead); and may have a key left alone for a while
// (Pause). A limit of k at once needs no more than a [storeless.SlidingLog] of Quota k, whose
// receipt is given back when what was admitted ends, and which counts it for a Window if it
// never does. Package pace makes of Ahead and Pause a line of calls that wait, in many processes.
//
// # A counter of your own
//
// An engine that can keep some bytes for a key needs no arithmetic: load an [Account],
// take the call, store it if it was admitted, until it Expires, as one atomic step. The account
// knows the last IDs, for all processes; an engine of one process may keep [Idempotency]
// beside it, which is not stored. A refund is the same, with Refund. A store that fails is
// [ErrMaybeCounted], unless it says for certain that nothing was written. An engine
// that does the arithmetic itself, in a script or in SQL, says how the account stood,
// and a [Snapshot] makes the verdict of it. Package exacttest says whether it counts
// exactly. For a store that replaces a value only if it has not changed, package cas has
// all of that. An engine whose keys lie on several servers says on which, as [Parted].
package exact
