// SPDX-License-Identifier: Apache-2.0

// Package receipt has what engines say alike of the charges of an account: what a receipt tells of its charge, and how it is
// stored which of many came back.
package receipt

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// A Serial has what the serial of a receipt tells: the number of its charge and, if calls were booked when it was made, what it
// cost, from where on it is on the line of each limit, and what it cost there.
type Serial struct {
	Number uint64
	Cost   int64
	From   []int64 // from its moment on, before that if negative; nil: it is on no line
	Each   []int64 // in String nil if that is Cost on each
}

// String writes what Parse reads.
func (s *Serial) String() string {
	b := strconv.AppendUint(make([]byte, 0, 24), s.Number, 36)
	if s.From != nil {
		for _, n := range slices.Concat([]int64{s.Cost}, s.From, s.Each) {
			b = strconv.AppendInt(append(b, '_'), n, 36)
		}
	}
	return string(b)
}

// Parse reads the serial of a receipt, and reports whether there can be such a receipt.
func Parse(r *exact.Receipt) (s Serial, ok bool) {
	if r.Policy == nil || r.Cost < 1 {
		return s, false
	}
	number, rest, lined := strings.Cut(r.Serial, "_")
	var err error
	if s.Number, err = strconv.ParseUint(number, 36, 64); err != nil || !lined {
		return s, err == nil
	}
	var all []int64
	for word := range strings.SplitSeq(rest, "_") {
		n, err := strconv.ParseInt(word, 36, 54) // a double holds it
		if err != nil {
			return s, false
		}
		all = append(all, n)
	}
	limits := r.Policy.Len()
	if len(all) == 1+limits {
		all = append(all, slices.Repeat(all[:1], limits)...)
	}
	if len(all) != 1+2*limits {
		return s, false
	}
	s.Cost, s.From, s.Each = all[0], all[1:1+limits], all[1+limits:]
	return s, s.Cost >= r.Cost && s.Cost <= storeless.MaxQuota
}

// Refundable is engine.Refundable.
const Refundable = 8192

// Lowest returns the number up to which no charge comes back, as [Refundable] charges came after it.
func Lowest(serial uint64) uint64 { return max(serial, Refundable) - Refundable }

// RingSize is how many bytes a ring has: the bit of each of the last charges, at its number
// modulo their number. It needs neither floor nor length, which would be more than a kilobyte.
const RingSize = Refundable / 8

// Ring returns the ring of an account whose last charge is serial, of what came back: all up to a floor and, above it, where some
// has a bit, by number/8 and number%8, from the byte of the first on.
func Ring(floor uint64, some []byte, serial uint64) []byte {
	ring := make([]byte, RingSize)
	for n := Lowest(serial) + 1; n <= serial; n++ {
		i := n/8 - (floor+1)/8
		if n <= floor || i < uint64(len(some)) && some[i]&(1<<(n%8)) != 0 {
			ring[n/8%RingSize] |= 1 << (n % 8)
		}
	}
	return ring
}

// Unring returns the bits of a ring in order, from the byte of the first charge on; none if it is not whole.
func Unring(ring []byte, serial uint64) (some []byte) {
	if len(ring) < RingSize {
		return nil
	}
	first := Lowest(serial) + 1
	for i := first / 8; i <= serial/8; i++ {
		some = append(some, ring[i%RingSize])
	}
	some[0] &= 0xff << (first % 8)
	some[len(some)-1] &= 2<<(serial%8) - 1
	return some
}
