// SPDX-License-Identifier: Apache-2.0

// Package counters compares exact counters with what their engines do when they are
// used plainly for the same work: one call takes 1 of a fixed window's quota that is
// far away, durably where the engine is durable.
//
// [Measure] measures all of them in turn, and prints what it finds as benchmarks do;
// the command in cmd/report makes a table of it. For a profile of one there is a
// benchmark:
//
//	go test -run '^$' -bench 'Counter/file/' -cpuprofile cpu.out ./counters
package counters
