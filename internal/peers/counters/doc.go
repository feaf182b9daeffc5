// Package counters compares exact counters with what their engines do when they are
// used plainly for the same work: one call takes 1 of a fixed window's quota that is
// far away, durably where the engine is durable.
//
//	go test -run '^$' -bench . -benchtime 2s -count 5 ./counters
//
// It has nothing but benchmarks and what they need.
package counters
