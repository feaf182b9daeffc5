// SPDX-License-Identifier: Apache-2.0

// Package lookup keeps what a slow function answers about a key, such as what a database says
// of a customer: in so many entries and no more, for a while, one call for each key at once.
//
// Nobody waits for longer than the deadline of a call. Nobody waits for a call that brings up
// to date what is known already, or that follows a failure: what was answered last is good
// enough until the next answer.
//
// Each call runs on a goroutine of its own, which ends with it. There is no other way to go
// on without a function that does not look at its context. So many calls run at once and no
// more; a function that never returns takes a place for good.
package lookup
