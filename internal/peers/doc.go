// SPDX-License-Identifier: Apache-2.0

// Package peers measures the middleware side by side with other limiters for Go.
//
// Every limiter is an [http.Handler] around the same handler, keyed by the
// peer's address without its port, called through ServeHTTP with a request and
// a ResponseWriter that are used again and again. Measured is what one request
// costs beyond the connection it comes by: reading the key, deciding, writing
// the fields, and the garbage collection of all that.
//
// What matters most is measured side by side: [Contestants] take turns in one process, in
// slices of some milliseconds ([MeasureRequests], see package turns); so do the same limiters
// in a real server ([MeasureRoundTrips]), and on several processors with one client and
// with a million ([MeasureIdentities]). There a client of ours shows its newest token, as
// clients do, takes it from instance to instance, or forges one; each slice is looked at, and a
// run fails unless what was answered is what was meant.
//
// The benchmarks have more limiters and more clients, each in a process of its own: everything
// allowed and everything refused, of one client, of a hundred thousand and of a million, each
// already known to the limiter, on one core and on two; forged and oversized tokens; and the
// heap that each client leaves behind. Every benchmark counts what it sent, to whom and what
// was answered, and fails unless that is what it claims to measure. Their clients show the
// same token again and again: where many take part, the newest of each would have to be kept.
//
// The clients are no part of the measurement, or as little of it as can be: the row "bare" is
// the handler and the client alone. The addresses and tokens of many lie outside of the
// heap, so that the collector is paced by what a limiter keeps and by nothing else.
//
// Not measured: a network, windows that roll over, sweeps that a limiter puts off for longer
// than a benchmark runs, limits that a program would not set for real clients, and accuracy:
// some limiters count in another way, and x/time/rate sets no field at all.
//
// The command in cmd/report runs all of it and prints the medians; package memory and
// cmd/memory measure the memory of the middleware, package wire and cmd/wire what the bytes
// of its fields cost.
package peers
