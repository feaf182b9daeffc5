// SPDX-License-Identifier: Apache-2.0

// Package engine is for authors of exact counters: a counter without the place where it is kept.
// Programs that only use a counter need package exact.
//
// # A counter of your own
//
// An engine that can keep some bytes for a key needs no arithmetic. In one atomic step it
// loads an [Account], takes the call and, if the call was admitted, stores the account until
// it Expires. A refund is the same, with Refund. The account knows the last IDs, for all
// processes. An engine of one process may keep [Idempotency] beside it, which is not stored, and
// forgets accounts by an [IdleClock]. When the store fails, the engine returns
// [exact.ErrMaybeCounted], unless nothing was written for certain.
//
// Package cas has all of this for a store that replaces a value only if it has not changed.
//
// An engine that does the arithmetic itself, in a script or in SQL, says how the account
// stood, and a [Snapshot] makes the verdict of it.
//
// # What it may offer beside
//
// A counter that can list, restore and forget its accounts is an [Archive]: operators reset a customer
// with it, and [Copy] moves all accounts to another engine. An engine that takes several calls
// in one go is a [Batcher], and [Merge] makes one call of all that wait for the same key. An
// engine whose keys lie on several servers is [Partitioned]: it says on which server a key lies. An
// engine that needs longer than 50 ms has a method Deadline() time.Duration, which package
// middleware asks for.
//
// Package exacttest says whether a counter counts exactly.
package engine
