// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"math/big"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// The oracles say what the algorithms mean, in arbitrary integers and from the
// definitions; they share no arithmetic with the package.

func integer(v int64) *big.Int { return big.NewInt(v) }

func product(a, b int64) *big.Int { return new(big.Int).Mul(integer(a), integer(b)) }

// slides is the inequality of the sliding counter: prev·(W−e) + (cur+cost)·W ≤ L·W.
func slides(quota, window, elapsed, prev, cur, cost int64) bool {
	left := product(prev, window-elapsed)
	left.Add(left, product(cur, window))
	left.Add(left, product(cost, window))
	return left.Cmp(product(quota, window)) <= 0
}

// interval is GCRA's T: the smallest number of µs that, a quota's number of
// times, fills the window.
func interval(l storeless.Limit) int64 {
	t, rest := new(big.Int).DivMod(integer(l.Window.Microseconds()), integer(l.Quota), new(big.Int))
	if rest.Sign() > 0 {
		t.Add(t, integer(1))
	}
	return t.Int64()
}

// fits says whether cost would pass one limit whose state is s.
func fits(l storeless.Limit, s limiter.State, now time.Time, cost int64) bool {
	us, w := now.UnixMicro(), l.Window.Microseconds()
	if isBucket(l.Algorithm) {
		owed := max(0, s.At-us)
		return new(big.Int).Add(integer(owed), product(cost, interval(l))).Cmp(product(l.Burst, interval(l))) <= 0
	}
	window := us / w
	switch prev, cur := int64(s.Prev), int64(s.Cur); {
	case s.At >= window:
		return slides(l.Quota, w, max(0, us-s.At*w), prev, cur, cost)
	case s.At == window-1 && l.Algorithm == storeless.SlidingWindow:
		return slides(l.Quota, w, us-window*w, cur, 0, cost)
	}
	return cost <= l.Quota
}

// An admission is one line of a log.
type admission struct {
	clock   int64                      // of the instance that admitted, µs
	windows [storeless.MaxLimits]int64 // in which it counted it
	cost    int64
	policy  *limiter.Policy // in force
}

// A history is every admission of a tally, in the order in which they happened.
type history []admission

// admits says whether the whole history leaves room for cost under the i-th
// limit of p at the given clock. counted is the window that the request counts
// in; buckets have none.
func (h history) admits(p *limiter.Policy, i int, clock, counted, cost int64) bool {
	l := p.Limit(i)
	w := l.Window.Microseconds()
	if !isBucket(l.Algorithm) {
		prev := int64(0)
		if l.Algorithm == storeless.SlidingWindow {
			prev = h.spent(i, counted-1)
		}
		return slides(l.Quota, w, max(0, clock-counted*w), prev, h.spent(i, counted), cost)
	}
	// The bucket, without its recursion: since each admission, what came from it
	// on must have had time to leak, but for what the bucket holds.
	room := product(l.Burst, interval(l))
	room.Sub(room, product(cost, interval(l)))
	if room.Sign() < 0 {
		return false
	}
	since := new(big.Int)
	for j := len(h) - 1; j >= 0; j-- {
		since.Add(since, product(h[j].cost, interval(h[j].policy.Limit(i))))
		owed := new(big.Int).Sub(since, integer(clock-h[j].clock))
		if owed.Cmp(room) > 0 {
			return false
		}
	}
	return true
}

// spent is what was counted in one window of the i-th limit.
func (h history) spent(i int, window int64) (sum int64) {
	for _, a := range h {
		if a.windows[i] == window {
			sum += a.cost
		}
	}
	return sum
}

// add records an admission that left t.
func (h *history) add(p *limiter.Policy, now time.Time, cost int64, t limiter.Tally) {
	a := admission{clock: now.UnixMicro(), cost: cost, policy: p}
	for i := range p.Len() {
		a.windows[i] = t[i].At
	}
	*h = append(*h, a)
}
