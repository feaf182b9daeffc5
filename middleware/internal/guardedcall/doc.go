// SPDX-License-Identifier: Apache-2.0

// Package guardedcall stands between requests and an exact counter.
//
// A [Guard] bounds how many calls are out, by how long answers take. It lets callers
// take turns, gives each call a deadline, retries a call whose answer was lost, and
// keeps calls away from a counter that fails. It tells load from an outage, so a client
// cannot flood a counter to get into the fallback. A counter with keys in several parts
// is guarded part by part. [Refusals] remember what a counter has refused.
//
// It logs nothing and decides nothing about a request: the caller does.
package guardedcall
