// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/internal/plan"
	"github.com/tallystick/tallystick/storeless"
)

// A view is an account under the limits of one policy, at one moment: a copy, which
// is stored only if something was charged or given back.
type view struct {
	policy *plan.Plan
	now    time.Time
	tally  limiter.Tally // of the limits that keep no log
	logs   []chargeLog   // rolled; nil: no limit keeps one

	paused int64      // Unix ns before which nothing is admitted
	lines  []timeline // of the limits that are buckets; nil: no call is booked
	booked int64      // the last moment that one is booked for, Unix µs
	since  uint64     // the last receipt from before the first that is
	serial uint64     // the last receipt

	// Of the call that was charged.
	moment int64   // that it was admitted for, Unix µs
	paid   []int64 // from where on it is on each line, from its moment; nil: there are none
}

// decide checks every limit, and if charge is set and all of them have room charges
// all.
func (s *view) decide(price limiter.Price, charge bool) storeless.Verdict {
	p := s.policy
	if !p.HasLog {
		return s.step(p.Steps, price, charge)
	}
	v := s.logStatus(price)
	of := storeless.Verdict{Admitted: true}
	if p.Steps != nil {
		of = s.step(p.Steps, price, charge && v.Admitted)
	}
	v.Admitted, v.Impossible, v.Wait = v.Admitted && of.Admitted, v.Impossible || of.Impossible, max(v.Wait, of.Wait)
	if v.Admitted && charge {
		for i := range p.Limits {
			if cost := price.Of(i); cost > 0 && p.Logged(i) {
				s.note(i, cost)
			}
		}
		v.Limits = s.logStatus(limiter.Price{}).Limits // how they stand now
	}
	for j, i := range p.Place {
		v.Limits[i] = of.Limits[j]
	}
	if v.Impossible {
		v.Wait = 0
	}
	return v
}

// step decides by the limits that keep no log: all of the policy, or its steps.
func (s *view) step(p *limiter.Policy, price limiter.Price, charge bool) (v storeless.Verdict) {
	tally, price := s.steps(), s.stepsPrice(price)
	if !charge {
		return limiter.VerdictAs[storeless.Verdict](p.PeekAt(s.now, tally, price))
	}
	tally, is := p.StepAt(s.now, tally, price)
	s.setSteps(tally)
	return limiter.VerdictAs[storeless.Verdict](is)
}

// steps returns the states where the compiled steps of the policy have them.
func (s *view) steps() limiter.Tally {
	var tally limiter.Tally
	for j, i := range s.policy.Place {
		tally[j] = s.tally[i]
	}
	return tally
}

// stepsPrice returns the price where the compiled steps of the policy have their limits.
func (s *view) stepsPrice(price limiter.Price) limiter.Price {
	if price.Each == nil {
		return price
	}
	var each limiter.Costs
	for j, i := range s.policy.Place {
		each[j] = price.Each[i]
	}
	return limiter.Price{Cost: price.Cost, Each: &each}
}

func (s *view) setSteps(tally limiter.Tally) {
	for j, i := range s.policy.Place {
		s.tally[i] = tally[j]
	}
}

// logStatus says what the logs say of a call.
func (s *view) logStatus(price limiter.Price) (v storeless.Verdict) {
	v.Admitted = true
	for i := range s.policy.Limits {
		if !s.policy.Logged(i) {
			continue
		}
		quota, cost := s.policy.Limits[i].Quota, price.Of(i)
		of := s.logs[i].status(s.now.UnixNano(), quota, cost)
		v.Limits[i] = of
		v.Admitted = v.Admitted && !of.Blocked
		v.Impossible = v.Impossible || cost > quota
		if of.Blocked {
			v.Wait = max(v.Wait, of.Reset)
		}
	}
	return v
}

// note charges the log of the i-th limit.
//
// If a charge by another process has another end of a calendar window, because its zone data is older, the later end holds.
// The beginning of this window tells the two windows apart: an end near to it belongs to the window before. That
// window then stays open longer, and counts this charge. It does not become as long as both.
func (s *view) note(i int, cost int64) {
	t, c := &s.logs[i], s.policy.Calendars[i]
	if c == nil {
		t.charge(until(s.policy, i, s.now), cost, exact.MaxLog)
		return
	}
	start, end := c.Around(s.now)
	ends := end.UnixNano()
	if len(t.entries) > 0 && t.entries[0].until < (start.Unix()+end.Unix())*int64(time.Second)/2 {
		ends = t.entries[0].until
	}
	t.charge(ends, cost, 1)
}

// restore takes back what was charged at a time, but for buckets with a line.
func (s *view) restore(at time.Time, price limiter.Price) {
	p := s.policy
	for i := range s.logs {
		if !p.Logged(i) {
			continue
		}
		end := until(p, i, at)
		if last := len(s.logs[i].entries) - 1; p.Calendars[i] != nil && last >= 0 && end > s.now.UnixNano() {
			end = s.logs[i].entries[last].until // which may be later by the time zones of another process
		}
		s.logs[i].restore(end, price.Of(i))
	}
	if p.Steps == nil {
		return
	}
	tally, _ := p.Steps.Step(s.now, s.steps(), 0)
	then, now := unixMicro(at), unixMicro(s.now)
	back := p.Steps.Restore(s.now, at, tally, s.stepsPrice(price))
	for j, i := range p.Place {
		if p.Interval[i] == 0 {
			continue
		}
		back[j] = tally[j] // which may have been charged more than it has room for
		if s.lines == nil {
			back[j].At -= left(p, i, then, now, max(0, tally[j].At-now), price.Of(i))
		}
		if back[j].At <= now {
			back[j].At = 0
		}
	}
	s.setSteps(back)
}

// left returns how much of what a bucket owes a refund takes away: what has leaked out
// since is gone, and to give it back as well would make room for more than ever was charged.
func left(p *plan.Plan, i int, at, now, owed, cost int64) int64 {
	back := min(cost, plan.MaxDebt/p.Interval[i])*p.Interval[i] - max(0, now-at)
	return max(0, min(owed, back))
}

// ends returns the Unix second from which the i-th limit counts nothing.
func (s *view) ends(i int) int64 {
	p := s.policy
	if p.Logged(i) {
		if n := len(s.logs[i].entries); n > 0 {
			return s.logs[i].entries[n-1].until/int64(time.Second) + 1
		}
		return 0
	}
	var one limiter.Tally // the others count nothing
	one[i] = s.tally[i]
	return p.Tokens.Expires(&one)
}
