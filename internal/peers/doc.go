// SPDX-License-Identifier: Apache-2.0

// Package peers measures the middleware side by side with other limiters for Go.
//
// Every limiter is an [http.Handler] around the same handler, keyed by the
// peer's address without its port, called through ServeHTTP with a request and
// a ResponseWriter that are used again and again. Measured is what one request
// costs beyond the connection it comes by: reading the key, deciding, writing
// the fields, and the garbage collection of all that.
//
// Workloads: everything allowed and everything refused, of one client, of a
// hundred thousand and of a million, each already known to the limiter, on one
// core and on two; forged and oversized tokens; and the heap that each client
// leaves behind. Every benchmark counts what it sent, to whom and what was
// answered, and fails unless that is what it claims to measure.
//
// The clients are not part of the measurement. Their addresses and tokens are
// made beforehand and lie outside of the heap, so that the collector is paced by
// what a limiter keeps and by nothing else. A client shows the same token again
// and again instead of the newest: it costs the same to verify.
//
// Not measured: the network and net/http (see BenchmarkLoopback for their
// proportion), the first request of a client, windows that roll over, sweeps
// that a limiter puts off for longer than a benchmark runs, limits that a
// program would not set for real clients, and accuracy: some limiters count in
// another way, and x/time/rate sets no field at all.
//
// The command in cmd/report runs all of it in fresh processes and prints the
// medians; package memory and cmd/memory measure the memory of the middleware,
// package wire and cmd/wire what the bytes of its fields cost.
package peers
