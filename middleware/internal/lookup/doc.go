// SPDX-License-Identifier: Apache-2.0

// Package lookup caches what a slow function answers about a key, such as a customer in a
// database: in a fixed number of entries, for a while, with one call at a time for each key.
//
// No caller waits longer than the deadline of a call. No caller waits for a refresh, or for a
// call after a failure: the last answer is good enough until the next.
//
// Each call runs on a goroutine of its own, which ends with it: there is no other way to
// leave a function that ignores its context. A fixed number of calls run at once. A
// function that never returns keeps its place.
package lookup
