// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuantiles(t *testing.T) {
	var h histogram
	require.Zero(t, h.quantile(0.5))
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Microsecond)
	}
	h.add(0)
	h.add(-1)
	require.EqualValues(t, 1002, h.count())
	for _, q := range []float64{0.1, 0.5, 0.9, 0.99} {
		got := h.quantile(q).Seconds() * 1e6
		require.InEpsilon(t, q*1000, got, 0.14, "cells are an eighth wide")
	}
	require.LessOrEqual(t, h.quantile(0.001), 9*time.Nanosecond)
	var far histogram
	far.add(time.Hour)
	require.InEpsilon(t, time.Hour.Seconds(), far.quantile(1).Seconds(), 0.13)
}

// kept is what the leaks of the tests hold.
var kept [][]byte

func TestLiveHeapSeesWhatIsKept(t *testing.T) {
	defer func() { kept = nil }()
	before, _ := live()
	for range 64 {
		kept = append(kept, make([]byte, 1<<20))
	}
	after, _ := live()
	require.InEpsilon(t, 64<<20, after-before, 0.1)
}

func TestGoroutinesThatAreLeft(t *testing.T) {
	_, before := live()
	stay := make(chan struct{})
	go func() { <-stay }()
	require.Equal(t, before+1, left(before, 0))
	close(stay)
	require.Equal(t, before, left(before, patience))
}
