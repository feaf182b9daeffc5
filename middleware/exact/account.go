package exact

import (
	"strconv"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// An Account is what one key has counted under one policy: all of a counter but
// where it is kept. It is for those who write a [Counter] for an engine that can
// keep some bytes: load, decide, store. It is pure, and the clock is an argument,
// in ns; it is not safe for concurrent use. The zero Account has counted nothing.
type Account struct {
	tally    storeless.Tally             // of the limits that are no trails
	trails   *[storeless.MaxLimits]trail // nil: none
	ids      [storeless.MaxLimits]uint32 // of the limits that these are of
	latest   int64                       // Unix ns of the last charge: time does not step back behind it
	expires  int64                       // Unix second from which nothing of it counts
	serial   uint64                      // of the last receipt
	refunded map[uint64]int64            // serials given back, and when they were charged
}

// Take decides a call and charges it if it is admitted.
func (a *Account) Take(call *Call, now time.Time) Verdict {
	p, at := call.Policy, a.moment(now)
	v := Verdict{Verdict: a.decide(p, at, call.Cost, true)}
	if !v.Admitted {
		return v
	}
	a.latest = at.UnixNano()
	a.expires = a.ends(p)
	a.serial++
	v.Receipt = Receipt{Key: call.Key, Cost: call.Cost, Policy: p, At: at, Serial: strconv.FormatUint(a.serial, 36)}
	return v
}

// Peek says what Take would.
func (a *Account) Peek(call *Call, now time.Time) Verdict {
	return Verdict{Verdict: a.decide(call.Policy, a.moment(now), call.Cost, false)}
}

// Replay completes what [Replies] has found: with how the limits of an admitted call
// stand now, which would be long to keep.
func (a *Account) Replay(v Verdict, call *Call, now time.Time) Verdict {
	if v.Admitted {
		v.Limits = a.decide(call.Policy, a.moment(now), 0, false).Limits
	}
	v.Replayed = true
	return v
}

// Refund gives back a charge of this account, once, while it counts. It reports
// whether it did.
func (a *Account) Refund(r *Receipt, now time.Time) bool {
	serial, err := strconv.ParseUint(r.Serial, 36, 64)
	if err != nil || r.Policy == nil || r.Cost < 1 {
		return false
	}
	p := r.Policy
	now = a.moment(now)
	a.fit(p)
	if _, done := a.refunded[serial]; done || serial > a.serial || !counts(p, r.At, now) {
		return false
	}
	if a.refunded == nil {
		a.refunded = make(map[uint64]int64)
	}
	for s, when := range a.refunded { // they say nothing any more
		if !counts(p, time.Unix(0, when), now) {
			delete(a.refunded, s)
		}
	}
	a.refunded[serial] = r.At.UnixNano()
	a.restore(p, r.At, now, r.Cost)
	return true
}

// Idle reports whether nothing of the account counts any more: it may be forgotten.
func (a *Account) Idle(now time.Time) bool { return a.moment(now).Unix() >= a.expires }

// moment returns now, or the latest time seen where a clock has stepped back: an
// earlier window would be a fresh quota.
func (a *Account) moment(now time.Time) time.Time {
	if now.UnixNano() < a.latest {
		return time.Unix(0, a.latest)
	}
	return now
}

// decide checks every limit, and if charge is set and all of them have room charges
// all.
func (a *Account) decide(p *Policy, now time.Time, cost int64, charge bool) storeless.Verdict {
	a.fit(p)
	if !p.trail {
		if !charge {
			return storeless.Peek(nil, p.tokens, now, &storeless.Family{Shown: a.tally}, cost)
		}
		tally, v := p.tokens.Step(now, a.tally, cost)
		if v.Admitted { // else a clock that steps back would find it rolled too far
			a.tally = tally
		}
		return v
	}
	ns := now.UnixNano()
	var trails [storeless.MaxLimits]trail // rolled; kept if they are charged
	for i := range p.limits {
		trails[i] = a.trails[i]
		trails[i].roll(ns)
	}
	standings := func() (v storeless.Verdict) {
		v.Admitted = true
		for i := range p.limits {
			if !trailed(p.limits[i].Algorithm) {
				continue
			}
			quota := p.limits[i].Quota
			s := trails[i].stand(ns, quota, cost)
			v.Limits[i] = s
			v.Admitted = v.Admitted && !s.Blocked
			v.Impossible = v.Impossible || cost > quota
			if s.Blocked {
				v.Wait = max(v.Wait, s.Reset)
			}
		}
		return v
	}
	v := standings()
	steps, of := a.step(p, now, cost, charge && v.Admitted)
	v.Admitted, v.Impossible, v.Wait = v.Admitted && of.Admitted, v.Impossible || of.Impossible, max(v.Wait, of.Wait)
	if v.Admitted && charge {
		for i := range p.limits {
			if trailed(p.limits[i].Algorithm) {
				trails[i].charge(until(&p.limits[i], now), cost)
			}
		}
		*a.trails = trails
		for j, i := range p.place {
			a.tally[i] = steps[j]
		}
		cost = 0 // how they stand now
		v.Limits = standings().Limits
	}
	for j, i := range p.place {
		v.Limits[i] = of.Limits[j]
	}
	if v.Impossible {
		v.Wait = 0
	}
	return v
}

// step decides by the limits that are no trails.
func (a *Account) step(p *Policy, now time.Time, cost int64, charge bool) (steps storeless.Tally, v storeless.Verdict) {
	if p.steps == nil {
		v.Admitted = true
		return steps, v
	}
	for j, i := range p.place {
		steps[j] = a.tally[i]
	}
	if !charge {
		return steps, storeless.Peek(nil, p.steps, now, &storeless.Family{Shown: steps}, cost)
	}
	return p.steps.Step(now, steps, cost)
}

// restore takes back what was charged at a time.
func (a *Account) restore(p *Policy, at, now time.Time, cost int64) {
	if !p.trail {
		a.tally = storeless.Restore(nil, p.tokens, at, now, &storeless.Family{Shown: a.tally}, cost)
		return
	}
	for i := range p.limits {
		if trailed(p.limits[i].Algorithm) {
			a.trails[i].restore(until(&p.limits[i], at), cost)
		}
	}
	if p.steps == nil {
		return
	}
	steps := storeless.Tally{}
	for j, i := range p.place {
		steps[j] = a.tally[i]
	}
	steps = storeless.Restore(nil, p.steps, at, now, &storeless.Family{Shown: steps}, cost)
	for j, i := range p.place {
		a.tally[i] = steps[j]
	}
}

// fit puts the states where p has their limits. A policy that was reconfigured keeps
// the counts of the limits that it kept; new ones begin at zero.
func (a *Account) fit(p *Policy) {
	if a.ids != p.ids {
		var tally storeless.Tally
		var trails [storeless.MaxLimits]trail
		for i := range p.limits {
			for j, id := range a.ids {
				if id != p.ids[i] || a.serial == 0 {
					continue
				}
				tally[i] = a.tally[j]
				if a.trails != nil {
					trails[i] = a.trails[j]
				}
			}
		}
		a.tally, a.ids = tally, p.ids
		if a.trails != nil {
			*a.trails = trails
		}
	}
	if p.trail && a.trails == nil {
		a.trails = new([storeless.MaxLimits]trail)
	}
}

// ends returns the Unix second from which nothing counts.
func (a *Account) ends(p *Policy) int64 {
	if !p.trail {
		return p.tokens.Expires(a.tally)
	}
	var last int64
	if p.steps != nil {
		var steps storeless.Tally
		for j, i := range p.place {
			steps[j] = a.tally[i]
		}
		last = p.steps.Expires(steps)
	}
	for i := range a.trails {
		if n := len(a.trails[i].marks); n > 0 {
			last = max(last, a.trails[i].marks[n-1].until/int64(time.Second)+1)
		}
	}
	return last
}

// counts reports whether a charge made at a time still counts in a window of p.
func counts(p *Policy, at, now time.Time) bool {
	for i := range p.limits {
		l := &p.limits[i]
		w := int64(l.Window)
		switch l.Algorithm {
		case storeless.SlidingWindow:
			if now.UnixNano()/w-at.UnixNano()/w <= 1 {
				return true
			}
		case storeless.FixedWindow:
			if now.UnixNano()/w == at.UnixNano()/w {
				return true
			}
		case storeless.SlidingLog, storeless.RollingDay:
			if until(l, at) > now.UnixNano() {
				return true
			}
		default:
			if now.Sub(at) < l.Window {
				return true
			}
		}
	}
	return false
}
