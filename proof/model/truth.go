// SPDX-License-Identifier: Apache-2.0

package model

import "time"

// What is true of a tally, as only an observer of all instances knows. It is kept by
// arithmetic of its own: a mistake of package limiter must not excuse itself.
type truth [2]used

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
func (l law) charge(t *truth, clock time.Duration, after pair) {
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
func (l law) settle(t *truth, now, then time.Duration, cost int64) {
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
func (l law) forget(t *truth, earliest time.Duration) {
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
func (l law) in(t *truth, p pair) (is pair) {
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
	now := base.Add(clock)
	for i, s := range p[:len(l)] {
		r := &l[i]
		if r.interval > 0 {
			if debt := max(0, time.UnixMicro(s.At).Sub(now)); debt+time.Duration(more)*r.interval > time.Duration(r.quota)*r.interval {
				return false
			}
			continue
		}
		width := r.window.Milliseconds()
		weight := width - max(0, now.UnixMilli()-s.At*width)
		if int64(s.Prev)*weight+(int64(s.Cur)+more)*width > r.quota*width {
			return false
		}
	}
	return true
}

// below reports whether p says no more than the truth, number by number.
func (l law) below(p, truth pair) bool {
	for i, s := range p[:len(l)] {
		if t := truth[i]; l[i].interval > 0 && s.At > t.At || l[i].interval == 0 && (s.Cur > t.Cur || s.Prev > t.Prev) {
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

// bound is what the table of bounds says of a tally by one limit: no more is admitted for it in one
// window by a number of lives of memories.
func (w *compiled) bound(f, limit, lives int) int {
	one := w.one(f, limit)
	most := lives * one
	switch w.Client {
	case Parallel:
		most = min(most, w.AtOnce*one)
	case LastSent:
		atOnce := w.AtOnce * one
		if len(w.Moments) > 1 {
			atOnce += w.AtOnce - 1 // that were under way when the window began: see docs/proof.md
		}
		most = min(most, atOnce)
	}
	if w.Mode == EveryRequest {
		most = min(most, lives*w.Proofs)
	}
	if w.SettleTo > 1 {
		most += w.Settles * int(w.SettleTo-1)
	}
	return most
}

// one is what one memory admits by one limit.
func (w *compiled) one(f, limit int) int {
	span := w.Moments[len(w.Moments)-1] - w.Moments[0] + max(0, w.Step)
	most := w.law(f)[limit].one(span)
	if w.Reconfigures > 0 {
		most = max(most, w.laws[1][f][limit].one(span))
	}
	return most
}

// span is the bound of one memory in any span of a window's length: see package limiter.
func (w *compiled) span() int {
	switch r := w.law(shared)[0]; {
	case r.interval > 0:
		return r.one(r.window)
	case r.slides:
		return int(2*r.quota - 1)
	default:
		return int(2 * r.quota)
	}
}

// Bound is what the table of bounds says of all clients of this world together.
func (w World) Bound() (all int, err error) {
	c, err := w.compile()
	if err != nil {
		return 0, err
	}
	lives := w.Instances + w.Restarts
	switch {
	case w.Step < 0:
		return c.one(c.carried(), 0), nil // of one memory: the truth of all together is unknown
	case w.networks():
		return lives * min(c.one(tallies+1, 0), min(c.one(tallies, 0), 2*c.one(shared, 0))+c.one(shared, 0)), nil
	}
	for f := range 1 + w.Tallies {
		if f == shared && w.Mode == Newcomers || f != shared && w.Mode != Newcomers && w.Mode != WhenExhausted {
			continue
		}
		least := c.bound(f, 0, lives)
		for i := range c.law(f) {
			least = min(least, c.bound(f, i, lives))
		}
		all += least
	}
	return all, nil
}
