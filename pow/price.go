// SPDX-License-Identifier: Apache-2.0

package pow

import "time"

// Prices are in expected hashes.
const (
	// DefaultWork is the largest power of two whose worst case a browser without
	// a JIT (75 000 hashes a second) finishes within the shortest ttl.
	DefaultWork = 1 << 18
	// MinWork is the smallest price above zero; below it the puzzles would have
	// so few candidates that guessing rivals solving.
	MinWork = 16
	// MaxWork is the largest price. At it R is 2^30, so that every answer is
	// also a 32-bit signed integer, the fast kind in JavaScript.
	MaxWork = 1 << 32

	// puzzles is k. Eight make the worst case twice the mean with a 99th
	// percentile of 1.47, fit one HMAC output, and feed a handful of workers.
	// It is not configurable: each further value would be another thing for
	// every solver to be tested with, and buys a few percent of variance.
	puzzles = 8

	minSpan = 2 * MinWork / puzzles
	maxSpan = 2 * MaxWork / puzzles

	minTTL     = 10  // seconds
	defaultTTL = 60  // the longest, unless Config.MaxTTL says otherwise
	maxTTL     = 300 // the longest that Config.MaxTTL may say

	// slowest is the hash rate, per second, of the slowest client that a ttl is
	// made for, and slack what the network may take on top.
	slowest = 75_000
	slack   = 2
)

// spanOf returns R for a price: 2*work/k, rounded up, so that what is signed is
// never below what was asked for.
func spanOf(work uint64) uint32 {
	return uint32((2*work + puzzles - 1) / puzzles)
}

// workOf returns the price of k puzzles over a span: k*R/2, rounded up. The
// exact mean number of tries is k*(R+1)/2, that is k/2 more, because even the
// answer 0 takes one hash; a price of whole spans is what both sides can compute
// from the header without agreeing on that half.
func workOf(k uint8, span uint32) uint64 {
	return (uint64(k)*uint64(span) + 1) / 2
}

// ttlOf returns the lifetime in whole seconds: the worst case (twice the work)
// on the slowest client, rounded up, plus the slack, within [minTTL, longest].
// Where the upper bound wins (above 2.1 million hashes for a minute, 11 million for
// five) the slowest clients may fail; a longer life would let all others
// stock-pile answers.
func ttlOf(work uint64, longest uint16) uint16 {
	return uint16(min(max((2*work+slowest-1)/slowest+slack, minTTL), uint64(longest)))
}

// seconds turns a ttl field into a duration.
func seconds(ttl uint16) time.Duration { return time.Duration(ttl) * time.Second }
