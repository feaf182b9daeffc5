// SPDX-License-Identifier: Apache-2.0

// Package slots counts the requests that are being served, by tally: "at most k at once".
//
// It is no bound of work. A slot counts for as long as its request runs, but no longer than
// Hold: else a client with k connections that send nothing shuts out all that share its
// tally, for as long as it likes. So at most k + k·(age/Hold) requests of one tally are alive,
// where the oldest has the age. Who wants k and no more ends the request at Hold.
//
// It holds what the server holds anyway: one entry for each request that is alive. There is
// no goroutine and no window; what has ended too long ago is noticed by those who ask next.
package slots
