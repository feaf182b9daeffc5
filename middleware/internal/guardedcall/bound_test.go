// SPDX-License-Identifier: Apache-2.0

package guardedcall

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var boundTerms = terms{deadline: 50 * time.Millisecond, most: 256}

// trip has as many calls go out as may, and come back after the same time.
func trip(b *bound, took time.Duration) int {
	n := b.places(boundTerms.most)
	first := b.sent
	b.sent += uint64(n)
	for i := range n {
		b.answered(first+uint64(i)+1, took, true, boundTerms)
	}
	return b.places(boundTerms.most)
}

func TestBoundGrowsWhereAnswersAreQuick(t *testing.T) {
	var b bound
	require.Equal(t, firstBound, b.places(256))
	require.Equal(t, 3, (&bound{}).places(3), "not above InFlight")
	require.Equal(t, 2*firstBound, trip(&b, time.Millisecond))
	require.Equal(t, 4*firstBound, trip(&b, time.Millisecond))
	one := trip(&b, 5*time.Millisecond)
	require.InDelta(t, 4*firstBound+1, one, 1, "with a queue, by one in a round trip")
	require.Equal(t, one, trip(&b, 8*time.Millisecond), "with a longer one not at all")
	require.Equal(t, one, trip(&b, 16*time.Millisecond))
	for range 100 {
		trip(&b, time.Millisecond)
	}
	require.Equal(t, 256, b.places(256))
	b.answered(b.sent, time.Millisecond, true, boundTerms)
	require.Equal(t, 256, b.places(256), "never above InFlight")
}

func TestBoundStaysWhereNobodyNeedsMore(t *testing.T) {
	var b bound
	b.places(256)
	for n := range uint64(100) {
		b.sent++
		b.answered(n+1, time.Millisecond, false, boundTerms)
	}
	require.Equal(t, firstBound, b.places(256))
}

// It shrinks once in a round trip, however many of its answers are late: they tell of one
// queue.
func TestBoundShrinksBeforeTheDeadline(t *testing.T) {
	var b bound
	for b.places(256) < 256 {
		trip(&b, time.Millisecond)
	}
	require.Equal(t, 192, trip(&b, 26*time.Millisecond))
	require.Equal(t, 144, trip(&b, 26*time.Millisecond))
	require.Greater(t, b.reserve(50*time.Millisecond), 26*time.Millisecond, "a call must have time for it")
	b.missed(b.shrunk, true, true, boundTerms)
	require.Equal(t, 144, b.places(256), "it went out before")
	b.sent++
	b.missed(b.sent, false, false, boundTerms)
	require.Equal(t, 72, b.places(256), "answers are slow, and some are too late")
	b.sent++
	b.missed(b.sent, true, false, boundTerms)
	require.Equal(t, 36, b.places(256), "nobody is answered")
	for range 5 {
		b.sent++
		b.missed(b.sent, true, false, boundTerms)
	}
	require.Equal(t, fewCalls, b.places(256), "among few")
	b.sent++
	b.missed(b.sent, true, true, boundTerms)
	require.Equal(t, 1, b.places(256), "among many")
}

// A call that misses while others are answered soon has met no queue.
func TestBoundIsNotWhatOneKeyMakesOfIt(t *testing.T) {
	var b bound
	trip(&b, time.Millisecond)
	b.sent++
	b.missed(b.sent, false, false, boundTerms)
	require.Equal(t, 2*firstBound, b.places(256))
}

// A counter that takes long without a queue, of which few calls are out in vain, is let
// have more again.
func TestBoundLearnsWhatACallTakes(t *testing.T) {
	var b bound
	trip(&b, time.Millisecond)
	for b.places(256) > 1 {
		trip(&b, 35*time.Millisecond)
	}
	for range 2 * loneAnswers {
		trip(&b, 35*time.Millisecond)
	}
	require.Greater(t, b.places(256), 1)
	require.Equal(t, 35*time.Millisecond, b.lone)
}
