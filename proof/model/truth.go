// SPDX-License-Identifier: Apache-2.0

package model

import (
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/truth"
)

// A usage holds the truth about a tally, as only an observer of all instances knows. It is kept by
// arithmetic of its own, and package truth says what it has room for: a mistake of package limiter must not excuse itself.
type usage [2]used

// A pair is a tally of the limits that a world has, at most two.
type pair [2]limiter.State

func (p pair) whole() (t limiter.Tally) {
	copy(t[:], p[:])
	return t
}

// used is what is used of one limit.
type used struct {
	admitted [4]uint8 // by the window that was charged; of a bucket all, in the first
	mark     int32    // of a bucket, in tenths of a second since base
}

const tenth = 100 * time.Millisecond

// A law has the limits of a world for one of the things that are counted.
type law []rule

type rule struct {
	quota    int64
	window   time.Duration
	interval time.Duration // of a bucket; else 0
	first    int64         // the number of the window before the window of the start
	slides   bool
	lasting  bool // what is used does not come back in this world
}

// windowAt returns the number of the window that a clock is in.
func (r *rule) windowAt(clock time.Duration) int64 {
	return base.Add(clock).Unix() / int64(r.window/time.Second)
}

// at returns where what is charged in a window is counted; of no window, where nothing is.
func (r *rule) at(window int64) int {
	if r.interval > 0 {
		return 0
	}
	return max(0, int(window-r.first))
}

// here is the windows that a clock is in.
func (l law) here(clock time.Duration) (p pair) {
	for i := range l {
		if l[i].interval == 0 {
			p[i].At = l[i].windowAt(clock)
		}
	}
	return p
}

// charge notes what was admitted: after is the tally of the answer.
func (l law) charge(t *usage, clock time.Duration, after pair) {
	for i := range l {
		r, u := &l[i], &t[i]
		u.admitted[r.at(after[i].At)]++
		if r.interval > 0 {
			u.mark = max(u.mark, int32(clock/tenth)) + int32(r.interval/tenth)
		}
	}
}

// settle notes that what was charged then costs nothing, or more. What is given back was not used in its window, and
// of a bucket what has leaked since is gone; what is charged is charged now.
func (l law) settle(t *usage, now, then time.Duration, cost int64) {
	for i := range l {
		r, u := &l[i], &t[i]
		if at := r.at(r.windowAt(then)); cost == 0 {
			u.admitted[at] -= min(1, u.admitted[at])
			u.mark -= max(0, min(u.mark-int32(now/tenth), int32((r.interval-now+then)/tenth)))
			continue
		}
		u.admitted[r.at(r.windowAt(now))] += uint8(cost - 1)
		u.mark = max(u.mark, int32(now/tenth)) + int32(cost-1)*int32(r.interval/tenth)
	}
}

// forget drops what was admitted in windows that no clock will see again and that weigh
// nothing: it has been held against the bound.
func (l law) forget(t *usage, earliest time.Duration) {
	for i := range l {
		r := &l[i]
		if r.interval > 0 || r.lasting {
			continue
		}
		last := r.at(r.windowAt(earliest)) // the first that still counts
		if r.slides {
			last--
		}
		for at := range last {
			t[i].admitted[at] = 0
		}
	}
}

// in returns what is true in the windows of p.
func (l law) in(t *usage, p pair) (is pair) {
	for i := range l {
		r, u, at := &l[i], &t[i], l[i].at(p[i].At)
		is[i].At = p[i].At
		switch {
		case r.interval > 0:
			is[i].At, is[i].Cur = base.Add(time.Duration(u.mark)*tenth).UnixMicro(), uint32(u.admitted[0])
		case r.lasting:
			for _, n := range u.admitted {
				is[i].Cur += uint32(n)
			}
		default:
			if is[i].Cur = uint32(u.admitted[at]); at > 0 && r.slides {
				is[i].Prev = uint32(u.admitted[at-1])
			}
		}
	}
	return is
}

// room reports whether p has room for n requests more.
func (l law) room(clock time.Duration, p pair, more int64) bool {
	us := base.Add(clock).UnixMicro()
	for i, s := range p[:len(l)] {
		r, length, fits := &l[i], l[i].window.Microseconds(), false
		if r.interval > 0 {
			fits = truth.Bucket{Quota: int64(r.window / r.interval), Window: length, Burst: r.quota}.Fits(s.At-us, more)
		} else {
			fits = truth.Window{Quota: r.quota, Length: length}.Fits(max(0, us-s.At*length), int64(s.Prev), int64(s.Cur), more)
		}
		if !fits {
			return false
		}
	}
	return true
}

// below reports whether p says no more than the truth, number by number.
func (l law) below(p, is pair) bool {
	for i, s := range p[:len(l)] {
		if t := is[i]; l[i].interval > 0 && s.At > t.At || l[i].interval == 0 && (s.Cur > t.Cur || s.Prev > t.Prev) {
			return false
		}
	}
	return true
}

// one is what one memory admits by a limit, within a span if that is a bucket.
func (r *rule) one(span time.Duration) int {
	if r.interval > 0 {
		return int(r.quota) + int(span/r.interval)
	}
	return int(r.quota)
}

// base is the start of a window of any length that the worlds have.
var base = time.Unix(1_699_999_200, 0)
