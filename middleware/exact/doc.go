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
// # A counter of your own
//
// An engine that can keep some bytes for a key needs no arithmetic: load an [Account],
// take the call, store it, as one atomic step, and keep [Idempotency] for IDs. An engine
// that does the arithmetic itself, in a script or in SQL, says how the account stood,
// and a [Snapshot] makes the verdict of it. Package exacttest says whether it counts
// exactly. An engine whose keys lie on several servers says on which, as [Parted].
package exact
