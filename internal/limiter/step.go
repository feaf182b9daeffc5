// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"time"
)

// Step decides one request of the given cost against t at now, and returns the
// tally after it: charged on every limit if admitted, else t rolled to now. A
// cost of 0 peeks: it is always admitted and charges nothing. Step is pure; it
// is all there is where no memory is kept. It panics if cost is negative.
func (p *Policy) Step(now time.Time, t Tally, cost int64) (after Tally, v Verdict) {
	return p.StepAt(now, t, Price{Cost: cost})
}

// StepAt is Step at a price.
func (p *Policy) StepAt(now time.Time, t Tally, price Price) (after Tally, v Verdict) {
	us := micros(now)
	p.roll(us, &t)
	p.step(us, &t, price, &v)
	return t, v
}

// Peek says what Step would say to a request of the given cost, and charges nothing. It
// panics if cost is negative.
func (p *Policy) Peek(now time.Time, t Tally, cost int64) (v Verdict) {
	return p.PeekAt(now, t, Price{Cost: cost})
}

// PeekAt is Peek at a price.
func (p *Policy) PeekAt(now time.Time, t Tally, price Price) (v Verdict) {
	if price.Cost < 0 {
		panic("limiter: negative cost")
	}
	us := micros(now)
	p.roll(us, &t)
	p.peek(us, &t, price, &v)
	return v
}

// Restore takes back from t what was counted at then, as [Memory.Restore] does.
func (p *Policy) Restore(now, then time.Time, t Tally, price Price) Tally {
	us, at := micros(now), micros(then)
	p.roll(us, &t)
	for i := range p.rules {
		t[i] = p.rules[i].restore(us, at, t[i], price.Of(i))
	}
	return t
}

// peek says how t stands, which is rolled.
func (p *Policy) peek(now int64, t *Tally, price Price, v *Verdict) {
	v.Admitted = true
	p.check(now, t, price, 0, v, &v.Limits)
	p.status(now, t, price, false, v)
}

// step checks all limits, then charges all of them or none. t is rolled.
func (p *Policy) step(now int64, t *Tally, price Price, v *Verdict) {
	if price.Cost < 0 {
		panic("limiter: negative cost")
	}
	v.Admitted = true
	p.check(now, t, price, 0, v, &v.Limits)
	charged := v.Admitted && price.Cost > 0
	if charged {
		p.charge(now, t, price, v)
	}
	p.status(now, t, price, charged, v)
}

// Merge returns the element-wise maximum of two tallies shown at now, after
// both are rolled to the present. Merging can only raise a tally, so a rolled
// back, forked or older one is harmless, and never an error. Windows too far
// ahead of now, min(5 s, window/10), are as if absent; the marks of buckets stay
// as they are, for the decision to judge.
func (p *Policy) Merge(now time.Time, a, b Tally) Tally {
	var merged Tally
	us := micros(now)
	for i := range p.rules {
		r := &p.rules[i]
		merged[i] = r.merge(r.seen(us, a[i]), r.seen(us, b[i]))
	}
	return merged
}

// Exceeds reports whether a client that showed b has something to learn from a:
// that a says more, or that b has a mark from a clock that went wrong, which a has
// not. (Without the news it would show that mark, and be cut down to a spent
// bucket, until the time of that clock has come.) Both are taken as they stand at
// now.
func (p *Policy) Exceeds(now time.Time, a, b Tally) bool {
	us := micros(now)
	for i := range p.rules {
		r := &p.rules[i]
		mine := r.shown(us, a[i])
		if r.merge(mine, r.shown(us, b[i])) != r.shown(us, b[i]) {
			return true
		}
		if r.beyond(us, b[i]) && !r.beyond(us, a[i]) {
			return true
		}
	}
	return false
}

// Life returns the longest time for which a tally that is charged now may matter.
func (p *Policy) Life() time.Duration {
	var life time.Duration
	for i := range p.rules {
		r := &p.rules[i]
		counts, owed := 2*r.limit.Window, r.empties
		if r.life > 0 {
			counts = r.limit.Window + time.Duration(r.life)*time.Microsecond
		}
		if r.interval > 0 {
			owed += r.overdraft(r.empties)
		}
		life = max(life, counts+time.Duration(owed)*time.Microsecond)
	}
	return life
}
