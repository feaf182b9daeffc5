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
// An admitted call is a load and a swap: two round trips, one after the other. A refusal is a load. Calls
// of one instance for the same key travel as one ([engine.Merge], always). Calls of several instances
// race, and one wins each time. A loser loads and swaps again, after a random pause that grows from one
// to eight times the length of a try. One instance may send any number of calls for a hot key. If more
// than some four instances race for one key, put package middleware/exact/lease in front, or use an
// engine that counts by itself, such as middleware/exact/redis.
//
// # Lost races
//
// A call that has lost [Config.Tries] races, or has no time left for another, ends with
// [exact.ErrContended]. That is load, not failure: the store works and counts other
// calls. Package middleware answers 503, and does not count it as an outage. Otherwise a
// client could flood its own key through many instances to get the policy's fallback.
// Exact.Contended admits such calls: then the fallback quotas bound them, to (N+C) times
// the fallback's quota beyond the limit.
//
// # Lost answers
//
// A swap without an answer may have been done. A call with an ID looks at once. If it cannot
// find out in time, the error is [exact.ErrMaybeCounted]: a retry with the same ID finds out,
// and is not charged twice. The account carries the IDs of the last 128 admitted calls in
// [exact.IDLife], stored by the same swap. A call that 128 others have overtaken is
// forgotten, and its retry is charged. No limit is exceeded by that.
//
// # Clocks
//
// A [TimedStore], such as middleware/exact/sql, tells the server's time with
// each load: then the rest of this section does not matter. With other stores
// each instance uses its own clock ([Config.Now]). An account's time does not
// step back (see [engine.Account]), so the instance furthest ahead leads:
//
//   - No window of an account admits more than its quota. For an instance that lags, a
//     window begins too early by its lag, and its waits are longer by as much.
//   - Clocks must agree to within the longest window of the policy, or the time in which
//     its slowest bucket empties. An account from further ahead was charged by a wrong
//     clock, and begins anew: two instances further apart reset its quota again and
//     again. A limit of 5 a second alone needs clocks that agree to within a second;
//     beside a limit of a day, to within a day.
//   - Clocks must also agree to within a minute: the store keeps an account a minute longer
//     than it counts.
//
// Servers whose clocks are kept by NTP agree to within some milliseconds.
package cas
