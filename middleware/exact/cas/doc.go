// SPDX-License-Identifier: Apache-2.0

// Package cas is an exact counter on any store with conditional writes: one that replaces
// a value only if it is still the one that was read. Such are NATS KV (package
// middleware/exact/nats), DynamoDB (middleware/exact/dynamodb), tables of a SQL
// database (middleware/exact/sql), etcd, Consul, and objects
// behind an HTTP server that knows If-Match. A [Store] of your own has two methods, and
// package castest says whether it keeps what they promise.
//
// # What a call costs
//
// A call that is admitted is a load and a swap: two round trips, one after the other. A
// refusal is a load. Calls of one instance for the same key travel as one ([engine.Merge],
// always); those of several instances race, and one wins each time. Who loses loads and
// swaps again, after a pause at random that grows from once to eight times what a try takes.
// One instance adds to a hot key as many calls as it likes; more than some four instances
// that race for one key at once want package middleware/exact/lease in front, or an engine that counts by
// itself, such as middleware/exact/redis.
//
// # Races that are lost
//
// A call that has lost [Config.Tries] races, or has no time left for another, ends with
// [exact.ErrContended]. That is load and no failure: the store works, and others are
// counted. Package middleware answers 503, and does not count it as an outage.
// Otherwise a client that hammers its own key, through many instances, would buy what the
// policy has for outages. A program that would rather admit such calls says so by name,
// with Exact.Contended: the fallback quotas bound them then, (N+C) times the fallback's
// quota beyond the limit.
//
// # Answers that are lost
//
// A swap that was not answered may have been done. A call with an ID looks at once, and if it
// cannot find out in time the error is [exact.ErrMaybeCounted]: who repeats it with its ID
// finds out, and is not charged twice. The account carries the IDs of the
// last 128 admitted calls in [exact.IDLife], which the same swap stores. Of one that so many
// others have overtaken, nothing is known any more, and its repeat is charged. Nobody is
// over the limit by that.
//
// # Whose clock
//
// The server's, where the store can tell it ([TimedStore], as middleware/exact/sql does): then
// nothing of what follows matters. Most stores have no clock that is told with what they load:
// there the clock is that of the instance that is asked ([Config.Now]). An account's time does not step back (see [engine.Account]), so
// that the instance furthest ahead leads. What that does:
//
//   - No window of an account admits more than its quota. By the clocks of the instances
//     that lag, a window may begin as much too early as the one that leads is ahead; and
//     they tell waits that are longer by as much.
//   - Clocks must agree to within the longest window of the policy, or the time in which
//     its slowest bucket empties. An account from further ahead than that was charged by
//     a clock that was wrong, and begins anew: two instances that are further apart give
//     its quota to each other again and again. A limit of 5 a second alone wants clocks
//     that agree to within a second; beside a limit of a day, to within a day.
//   - Clocks must agree to within a minute besides, which is how much longer than it counts
//     anything an account is kept in the store.
//
// Servers whose clocks are kept by NTP agree to within some milliseconds.
package cas
