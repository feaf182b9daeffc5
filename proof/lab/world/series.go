// SPDX-License-Identifier: Apache-2.0

package world

import "fmt"

// A Series is a number that is looked at again and again, and that must not grow.
type Series []float64

// Growth is by how much it grew over its second half: the slope of the straight line that is
// nearest to it, times its length.
func (s Series) Growth() float64 {
	half := s[len(s)/2:]
	if len(half) < 3 {
		return 0
	}
	n := float64(len(half))
	var sx, sy, sxx, sxy float64
	for i, y := range half {
		x := float64(i)
		sx, sy, sxx, sxy = sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx) * (n - 1)
}

// Quarter is the mean of the quarter that begins at a part of it.
func (s Series) Quarter(from float64) float64 {
	if len(s) == 0 {
		return 0
	}
	at := int(from * float64(len(s)))
	some := s[at:min(len(s), at+max(1, len(s)/4))]
	sum := 0.0
	for _, y := range some {
		sum += y
	}
	return sum / float64(len(some))
}

// Flat is the row of a series that has grown by so much, and may have by another.
func (s Series) Flat(what, unit string, per, grown, allowed float64) Row {
	return Row{
		What: what + ", by quarters", Before: fmt.Sprintf("%.1f%s, %.1f, %.1f", s.Quarter(0)/per, unit, s.Quarter(0.25)/per, s.Quarter(0.5)/per),
		After: fmt.Sprintf("%.1f%s (%+.2f)", s.Quarter(0.75)/per, unit, grown/per), Allowed: fmt.Sprintf("%+.1f%s", allowed/per, unit), OK: len(s) > 0 && grown <= allowed,
	}
}
