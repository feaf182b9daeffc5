// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"math/bits"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

// A histogram counts durations in cells of which each is an eighth wider than the last: it
// takes the same memory however many there are.
type histogram struct {
	mu    sync.Mutex
	cells [64 * 8]int64
	n     int64
}

func (h *histogram) add(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cells[cellOf(d)]++
	h.n++
}

func (h *histogram) count() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

// cellOf is the power of two, and which eighth of it.
func cellOf(d time.Duration) int {
	n := uint64(max(d, 8))
	top := bits.Len64(n) - 1
	return top*8 + int(n>>(top-3))&7
}

// quantile returns the upper end of the cell in which a part of all durations has ended.
func (h *histogram) quantile(q float64) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := int64(math.Ceil(q * float64(h.n)))
	for cell, n := range h.cells {
		if left -= n; left <= 0 && h.n > 0 {
			return time.Duration(8+cell%8+1) << (cell / 8) >> 3
		}
	}
	return 0
}

// live returns the bytes of the heap that are reachable, and how many goroutines there are.
func live() (heap float64, goroutines int) {
	// Twice: what a sync.Pool holds survives one collection.
	runtime.GC()
	runtime.GC()
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return float64(s[0].Value.Uint64()), runtime.NumGoroutine()
}
