// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/truth"
)

// An event is one request in the log of a tally or of a network. What was not
// admitted, or cost nothing, has no cost: somebody has looked.
type event struct {
	at     int64 // by the clock of the instance that admitted it, µs
	cost   int64
	limits []middleware.Limit // in force
	owes   []int64            // the most that any tier's bucket can be owed there, µs
	life   *life              // to which the request went
	back   bool               // it was counted, and given back as a policy inside refused it: the instance remembers the client
}

// A history is every request, in the order in which they happened. What it
// says of a limit is worked out anew for each question, from the definitions.
type history []event

func bucket(l middleware.Limit) bool { return l.Burst > 0 }

func bucketOf(l middleware.Limit) truth.Bucket {
	return truth.Bucket{Quota: l.Quota, Window: l.Window.Microseconds(), Burst: l.Burst}
}

func interval(l middleware.Limit) int64 { return bucketOf(l).Interval() }

// mayPass says whether a memory that saw all of h would have let the last event
// of it pass. It is the bound: an instance remembers at least this much.
func (h history) mayPass(i int) bool {
	before, last := h[:len(h)-1], h[len(h)-1]
	l := last.limits[i]
	if !bucket(l) {
		return before.windowFits(i, l, last.at/l.Window.Microseconds(), last.at, last.cost, 0)
	}
	return h.mark(i)-last.at <= interval(l)*l.Burst
}

// mark is the mark of a bucket, after all of h, in the token of a client that shows
// the newest and in the memory of the instance that it came to last.
func (h history) mark(i int) (mark int64) {
	memories := map[*life]int64{}
	for _, e := range h {
		// By this configuration, and whatever the clocks permit, nobody owes more.
		most := e.owes[i] + maxSkew(e.limits[i:i+1]).Microseconds()
		memory, known := memories[e.life]
		if memory-e.at > most {
			memory = e.at + e.owes[i]
			memories[e.life] = memory
		}
		switch {
		case mark-e.at > most && known:
			mark = memory
		case mark-e.at > most:
			mark = e.at + e.owes[i]
			memories[e.life] = mark
		}
		mark = max(mark, memory, e.at)
		if e.back {
			memories[e.life] = memory
		}
		if e.cost > 0 {
			mark += e.cost * interval(e.limits[i])
			memories[e.life] = mark
		}
	}
	return mark
}

// mustPass says whether a tally with this history is under a limit even if all
// of it is known, and counted in whichever window is worse.
func (h history) mustPass(i int, l middleware.Limit, at, cost, skew int64) bool {
	if !bucket(l) {
		w := l.Window.Microseconds()
		return cost == 0 || h.windowFits(i, l, at/w, at, cost, skew) && h.windowFits(i, l, (at+skew)/w, at, cost, skew)
	}
	mark := int64(0)
	for _, e := range h {
		mark = max(mark, e.at) + e.cost*interval(e.limits[i])
	}
	return cost == 0 || bucketOf(l).Fits(mark-at, cost)
}

// windowFits says whether cost fits into a window. An event counts in the window
// of its time, and with skew in the next one too if that is near.
func (h history) windowFits(i int, l middleware.Limit, window, at, cost, skew int64) bool {
	w := l.Window.Microseconds()
	var cur, prev int64
	for _, e := range h {
		for _, in := range distinct(e.at/w, (e.at+skew)/w) {
			switch in {
			case window:
				cur += e.cost
			case window - 1:
				prev += e.cost
			}
		}
	}
	if l.Algorithm == middleware.FixedWindow {
		prev = 0
	}
	return truth.Window{Quota: l.Quota, Length: w}.Fits(max(0, at-window*w), prev, cur, cost)
}

func distinct(a, b int64) []int64 {
	if a == b {
		return []int64{a}
	}
	return []int64{a, b}
}

// requireSpans checks a bucket in every span that ends with the last event: under several configurations, with the largest debt
// and the smallest step.
func (h history) requireSpans(t require.TestingT, owes, step int64) {
	last, sum := h[len(h)-1].at, int64(0)
	for i := len(h) - 1; i >= 0; i-- {
		sum += h[i].cost
		require.LessOrEqual(t, sum, (owes+last-h[i].at)/step)
	}
}

// inCore sums what one aligned window has admitted, leaving out its last
// moments, when by another clock the next one may have begun.
func (h history) inCore(l middleware.Limit, window, skew int64) (sum int64) {
	w := l.Window.Microseconds()
	for _, e := range h {
		if e.at/w == window && e.at+skew < (window+1)*w {
			sum += e.cost
		}
	}
	return sum
}

// inAll sums all that was admitted.
func (h history) inAll() (sum int64) {
	for _, e := range h {
		sum += e.cost
	}
	return sum
}

// maxSkew is how far clocks may differ for a limit: DESIGN says min(5 s, W/10).
func maxSkew(limits []middleware.Limit) time.Duration {
	least := 5 * time.Second
	for _, l := range limits {
		least = min(least, l.Window/10)
	}
	return least
}
