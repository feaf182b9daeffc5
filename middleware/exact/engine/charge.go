// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/internal/plan"
	"github.com/tallystick/tallystick/middleware/exact/internal/receipt"
	"github.com/tallystick/tallystick/storeless"
)

// take decides a call as it asks for it: now, whether there is room or not, or ahead. It
// charges what it admits, if charge is set.
func (s *view) take(call *exact.Call, charge bool) (v storeless.Verdict) {
	price := plan.Price(call.Cost, &call.Costs)
	rest := max(0, s.paused-s.now.UnixNano())
	if call.Pause > 0 && charge {
		s.paused = max(s.paused, s.now.Add(call.Pause).UnixNano())
	}
	switch {
	case call.Past || call.Cost == 0:
		if charge {
			s.charge(price)
		}
		v = s.decide(limiter.Price{}, false)
	case call.Ahead > 0:
		v = s.book(call, charge)
	case rest > 0:
		v = s.decide(price, false)
		v.Admitted = false
		if !v.Impossible {
			v.Wait = max(v.Wait, wholeSeconds(rest))
		}
	default:
		s.behind()
		v = s.decide(price, charge)
	}
	s.still(&v)
	return v
}

// still says in a verdict that nothing has room before the pause is over.
func (s *view) still(v *storeless.Verdict) {
	rest := s.paused - s.now.UnixNano()
	if rest <= 0 {
		return
	}
	for i := range s.policy.Limits {
		of := &v.Limits[i]
		of.Remaining, of.Reset, of.Blocked = 0, max(of.Reset, wholeSeconds(rest)), !v.Admitted
	}
}

// behind notes that a call is charged behind what is there already.
func (s *view) behind() {
	if s.lines == nil {
		return
	}
	s.paid = make([]int64, len(s.policy.Limits))
	for i := range s.paid {
		s.paid[i] = max(0, s.tally[i].At-s.moment) // of a window, whose number is small, the moment
	}
}

// charge charges every limit, whether it has room or not.
func (s *view) charge(price limiter.Price) {
	p := s.policy
	if price.Cost == 0 {
		return
	}
	s.behind()
	if p.Steps != nil {
		tally, _ := p.Steps.Step(s.now, s.steps(), 0) // brings them to now
		s.setSteps(tally)
	}
	for i := range p.Limits {
		of, cost := &s.tally[i], price.Of(i)
		switch {
		case cost == 0:
		case p.Logged(i):
			s.note(i, cost)
		case p.Interval[i] > 0:
			of.At = charged(p, i, max(of.At, s.moment), s.moment, cost)
		default:
			of.Cur = uint32(min(int64(of.Cur)+cost, storeless.MaxQuota))
		}
	}
}

// book charges a call at the first moment at which all limits have room, and that not
// before the pause is over, if that is near enough.
func (s *view) book(call *exact.Call, charge bool) storeless.Verdict {
	p, now := s.policy, s.moment
	v := s.decide(limiter.Price{Cost: call.Cost}, false)
	if v.Impossible {
		return v
	}
	tally, _ := p.Steps.Step(s.now, s.tally, 0)
	at := max(now, (s.paused+999)/1000)
	for moved := true; moved; {
		moved = false
		for i := range p.Limits {
			if first := s.line(i).first(at, tally[i].At, fitOf(p, i, call.Cost)); first > at {
				at, moved = first, true
			}
		}
	}
	late := at - call.Ahead.Microseconds()
	for i := range p.Limits { // no mark is further ahead than what is believed
		late = max(late, max(at, tally[i].At)+call.Cost*p.Interval[i]-plan.MaxDebt)
	}
	if v.Admitted = late <= now; !v.Admitted {
		v.Wait = wholeSeconds((late - now) * 1000)
		return v
	}
	if charge {
		s.place(tally, at, call.Cost)
	}
	v = s.decide(limiter.Price{}, false)
	v.Wait = max(0, time.UnixMicro(at).Sub(s.now))
	return v
}

// place charges a call that is admitted for a moment at which all limits have room.
func (s *view) place(tally limiter.Tally, at, cost int64) {
	p := s.policy
	if s.lines == nil && at > s.moment { // the first that is booked
		s.lines = make([]timeline, len(p.Limits))
		for i := range s.lines {
			s.lines[i].base = max(tally[i].At, s.moment)
		}
		s.since = s.serial
	}
	s.paid = nil
	for i := range p.Limits {
		from, mark := s.line(i).take(at, tally[i].At, fitOf(p, i, cost))
		tally[i].At = mark
		if s.lines != nil {
			s.paid = append(s.paid, max(from, s.moment)-at)
		}
	}
	if s.lines != nil {
		s.booked = max(s.booked, at)
	}
	s.tally, s.moment = tally, at
}

// line returns what is kept of the i-th limit while calls are booked, or nothing.
func (s *view) line(i int) *timeline {
	if s.lines == nil {
		return new(timeline)
	}
	return &s.lines[i]
}

// fit returns how long a call is on the line of the i-th limit.
func fitOf(p *plan.Plan, i int, cost int64) fit { return fit{cost * p.Interval[i], p.Empties[i]} }

// charged returns the mark of a bucket that has been charged from a mark on, at a moment.
func charged(p *plan.Plan, i int, from, at, cost int64) int64 {
	start := max(from, at)
	return start + min(cost, max(0, at+plan.MaxDebt-start)/p.Interval[i])*p.Interval[i]
}

// maxSerial is how long a serial of an account is at most: 18 numbers, each with what
// separates it.
const maxSerial = (2 + 2*storeless.MaxLimits) * 14

// refund takes back what was charged at a moment. While calls are booked, what is given back
// leaves the others where they are.
func (s *view) refund(r *exact.Receipt, is receipt.Serial) {
	p, price := s.policy, plan.Price(r.Cost, &r.Costs)
	s.restore(r.At, price)
	if s.lines == nil {
		return
	}
	now, at := s.moment, unixMicro(r.At)
	for i := range p.Limits {
		cost := price.Of(i)
		if p.Interval[i] == 0 || cost == 0 {
			continue
		}
		l := &s.lines[i]
		var back span
		if is.From != nil && is.Number > s.since {
			from, whole := at+is.From[i], is.Each[i]
			back = span{from, charged(p, i, from, at, whole)}
			if cost < whole {
				back.from = max(from, back.to-min(cost, plan.MaxDebt/p.Interval[i])*p.Interval[i])
			}
		} else { // the last of what was charged before any was booked
			back.to = l.base
			l.base -= left(p, i, at, now, max(0, l.base-now), cost)
			back.from = l.base
		}
		if s.tally[i].At = l.free(back, s.tally[i].At); s.tally[i].At <= now {
			s.tally[i].At = 0
		}
	}
	s.quiet()
}

// quiet ends the bookings if all were given back.
func (s *view) quiet() {
	for i := range s.lines {
		if len(s.lines[i].holes) > 0 || s.policy.Interval[i] > 0 && s.tally[i].At > s.lines[i].base {
			return
		}
	}
	s.lines, s.booked = nil, 0
}
