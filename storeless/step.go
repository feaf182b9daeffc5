package storeless

import (
	"math/bits"
	"time"
)

// A Verdict is what the arithmetic says of one request.
type Verdict struct {
	// Admitted says that every limit had room for the cost, and that all were
	// charged. Otherwise none was.
	Admitted bool

	// Impossible says that the cost is above the capacity of a limit: the
	// request can never pass, however long the client waits.
	Impossible bool

	// Saturated says that the memory had no room for this family, so that only
	// the token counted; or, for a [Family] that must be kept, that it was
	// refused for that.
	Saturated bool

	// Spent says that the proof had bought a request before.
	Spent bool

	// Wait is how long until the same request would pass if nobody else of the
	// family asked, rounded up to whole seconds. Zero if admitted or impossible,
	// and if no limit refused.
	Wait time.Duration

	// Limits says how each limit of the policy stands after the decision.
	Limits [MaxLimits]Standing
}

// A Standing is how one limit stands.
type Standing struct {
	Remaining int64         // cost that would still pass now; never negative
	Reset     time.Duration // whole seconds until a blocked limit admits this cost, else until Remaining next rises; 0 if it is full
	Blocked   bool          // this limit refused
}

// Least returns the smallest Remaining among the first n limits: how much more
// cost the family may spend at once.
func (v *Verdict) Least(n int) int64 {
	least := int64(MaxQuota)
	for i := range v.Limits[:n] {
		least = min(least, v.Limits[i].Remaining)
	}
	return least
}

// Step decides one request of the given cost against t at now, and returns the
// tally after it: charged on every limit if admitted, else t rolled to now. A
// cost of 0 peeks: it is always admitted and charges nothing. Step is pure; it
// is all there is where no memory is kept. It panics if cost is negative.
func (p *Policy) Step(now time.Time, t Tally, cost int64) (Tally, Verdict) {
	us := micros(now)
	for i := range p.rules {
		t[i] = p.rules[i].shown(us, t[i])
	}
	v := p.step(us, &t, cost)
	return t, v
}

// step checks all limits, then charges all of them or none. t is rolled.
func (p *Policy) step(now int64, t *Tally, cost int64) Verdict {
	if cost < 0 {
		panic("storeless: negative cost")
	}
	v := p.check(now, t, cost)
	if v.Admitted && cost > 0 {
		p.charge(now, t, cost)
	}
	p.stand(now, t, cost, &v)
	return v
}

// check says whether every limit has room. It fills in Admitted, Impossible,
// Blocked and Wait, and leaves what depends on the charge to stand.
func (p *Policy) check(now int64, t *Tally, cost int64) Verdict {
	v := Verdict{Admitted: true}
	for i := range p.rules {
		r := &p.rules[i]
		if cost > r.capacity {
			v.Admitted, v.Impossible, v.Limits[i].Blocked = false, true, true
			continue
		}
		if cost > 0 && cost > r.remaining(now, t[i]) {
			v.Admitted, v.Limits[i].Blocked = false, true
			v.Wait = max(v.Wait, wholeSeconds(r.wait(now, t[i], cost)))
		}
	}
	if v.Impossible {
		v.Wait = 0
	}
	return v
}

func (p *Policy) charge(now int64, t *Tally, cost int64) {
	for i := range p.rules {
		t[i] = p.rules[i].charge(now, t[i], cost)
	}
}

// stand fills in how each limit stands.
func (p *Policy) stand(now int64, t *Tally, cost int64, v *Verdict) {
	for i := range p.rules {
		r, s := &p.rules[i], &v.Limits[i]
		s.Remaining = max(0, r.remaining(now, t[i]))
		switch {
		case s.Blocked && cost <= r.capacity:
			s.Reset = wholeSeconds(r.wait(now, t[i], cost))
		case s.Remaining < r.capacity:
			s.Reset = wholeSeconds(r.wait(now, t[i], s.Remaining+1))
		}
	}
}

// elapsed is how far now is into the window of s; a window that starts ahead of
// the clock is at its very beginning.
func (r *rule) elapsed(now int64, s State) int64 { return max(0, now-s.At*r.window) }

// remaining returns how much cost would pass now; negative where a quota or a
// burst was lowered below what is used already. s is rolled.
//
// For the sliding counter, prev·(W−e) + (cur+cost)·W ≤ L·W is, in integers, the
// same as cost ≤ L − cur − ⌈prev·(W−e)/W⌉: exact, with one 128-bit product.
func (r *rule) remaining(now int64, s State) int64 {
	if r.interval > 0 {
		return (r.empties - max(0, s.At-now)) / r.interval
	}
	left := r.limit.Quota - int64(s.Cur)
	if s.Prev == 0 {
		return left
	}
	return left - mulDivUp(int64(s.Prev), r.window-r.elapsed(now, s), r.window)
}

// charge adds cost, which must be within remaining.
func (r *rule) charge(now int64, s State, cost int64) State {
	if r.interval > 0 {
		return State{At: max(s.At, now) + cost*r.interval}
	}
	s.Cur += uint32(cost) // cost ≤ remaining ≤ MaxQuota − Cur: no overflow
	return s
}

// wait returns the time in µs until cost, from 1 to the capacity, would pass;
// zero or less if it passes now. s is rolled.
func (r *rule) wait(now int64, s State, cost int64) int64 {
	if r.interval > 0 {
		return max(0, s.At-now) + cost*r.interval - r.empties
	}
	start, spare := s.At*r.window, r.limit.Quota-cost
	cur, prev := int64(s.Cur), int64(s.Prev)
	switch {
	case r.limit.Algorithm == FixedWindow && cur > spare:
		return start + r.window - now
	case cur > spare:
		// Not in this window. In the next, cur weighs as prev does now:
		// cur·(W−e) ≤ spare·W.
		return start + 2*r.window - mulDiv(spare, r.window, cur) - now
	case prev > 0:
		// prev·(W−e) ≤ (spare−cur)·W; with more than W to spare, at once.
		return start + r.window - mulDiv(min(spare-cur, prev), r.window, prev) - now
	}
	return 0
}

// mulDiv returns ⌊a·b/c⌋ for 0 ≤ a ≤ c or 0 ≤ b ≤ c, without overflow.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}

// mulDivUp returns ⌈a·b/c⌉ under the same conditions.
func mulDivUp(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, rem := bits.Div64(hi, lo, uint64(c))
	if rem > 0 {
		q++
	}
	return int64(q)
}

// micros is the clock of a decision. Before 1970 it stands still, and so refuses
// once the quota is spent: a clock that was never set must not count in windows
// that nothing remembers.
func micros(now time.Time) int64 { return max(0, now.UnixMicro()) }

// wholeSeconds rounds µs up to whole seconds; what has passed is zero.
func wholeSeconds(us int64) time.Duration {
	return time.Duration(max(0, (us+999_999)/1_000_000)) * time.Second
}
