// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"math/bits"
	"time"
)

// A histogram counts durations in buckets that are 3 % wide, or 1 ns: its size does not
// grow with what is measured, and gives the garbage collector nothing to do.
type histogram struct {
	n       uint64
	buckets [1280]uint32 // up to an hour and more
}

func (h *histogram) add(d time.Duration) {
	h.n++
	h.buckets[min(bucketOf(d), len(h.buckets)-1)]++
}

func (h *histogram) merge(other *histogram) {
	h.n += other.n
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
}

// quantile returns the duration that the share q of all is not above: the middle of its
// bucket. Of none it is 0.
func (h *histogram) quantile(q float64) time.Duration {
	want := max(1, uint64(q*float64(h.n)+0.5))
	var seen uint64
	for i, n := range h.buckets {
		if seen += uint64(n); seen >= want {
			return middle(i)
		}
	}
	return 0
}

// bucketOf numbers 0 to 63 ns one by one, and then 32 buckets for each doubling.
func bucketOf(d time.Duration) int {
	v := uint64(max(d, 0))
	shift := max(bits.Len64(v)-6, 0)
	return 32*shift + int(v>>shift)
}

func middle(bucket int) time.Duration {
	shift := max(bucket/32-1, 0)
	return time.Duration(bucket-32*shift)<<shift + time.Duration(1)<<shift/2
}
