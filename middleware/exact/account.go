package exact

import (
	"slices"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// An Account is what one key has counted under the policies of one name: all of a
// counter but where it is kept. It is for those who write a [Counter] for an engine
// that can keep some bytes: load, decide, store. It is pure, and the clock is an
// argument; it is not safe for concurrent use. The zero Account has counted nothing.
//
// Its time does not step back, or an earlier window would be a fresh quota: where the
// clock has, the account stands still until the clock is there again, and the waits that
// it tells last as long. But it does so for its longest window alone, or for the time in
// which its slowest bucket empties. An account from further ahead was charged by a clock
// that was wrong, and begins anew, once: or one wrong second would lock its key out for as
// long as the clock was ahead.
//
// What a policy does not have, it leaves alone: requests under an old configuration
// and a new one may be on their way at the same time. Only a charge or a refund
// changes anything: a clock that was wrong for a moment, while nothing was charged,
// leaves no trace.
type Account struct {
	entries  []entry
	latest   int64            // Unix ns of the last charge: time does not step back behind it
	hold     int64            // for how long, in ns, it stands still there at most
	serial   uint64           // of the last receipt
	refunded map[uint64]int64 // serials given back, and from when they do not matter, Unix ns
}

// An entry is what one limit has counted.
type entry struct {
	id    uint32
	ends  int64 // Unix second from which it counts nothing
	state storeless.State
	log   chargeLog // or
}

// maxEntries bounds what policies of one name may leave behind: beyond it, what ends
// first is forgotten.
const maxEntries = 4 * storeless.MaxLimits

// Take decides a call and charges it if it is admitted.
func (a *Account) Take(now time.Time, call *Call) Verdict {
	from, at := a.at(now)
	s := from.open(at, call.Policy)
	v := Verdict{Verdict: s.decide(call.Cost, true)}
	v.later(at.Sub(now))
	if !v.Admitted {
		return v
	}
	if from != a {
		*a = *from
	}
	a.store(&s)
	a.latest = at.UnixNano()
	a.serial++
	v.Receipt = Receipt{Key: call.Key, Cost: call.Cost, Policy: call.Policy, At: at, Serial: strconv.FormatUint(a.serial, 36)}
	return v
}

// Peek says what Take would.
func (a *Account) Peek(now time.Time, call *Call) Verdict {
	from, at := a.at(now)
	s := from.open(at, call.Policy)
	v := Verdict{Verdict: s.decide(call.Cost, false)}
	v.later(at.Sub(now))
	return v
}

// Replay completes what [Idempotency] has found: with how the limits stand now, which
// would be long to keep.
func (a *Account) Replay(now time.Time, v Verdict, call *Call) Verdict {
	cost := call.Cost
	if v.Admitted {
		cost = 0
	}
	from, at := a.at(now)
	s := from.open(at, call.Policy)
	of := Verdict{Verdict: s.decide(cost, false)}
	of.later(at.Sub(now))
	v.Limits = of.Limits
	v.Replayed = true
	return v
}

// Refund gives back a charge of this account, once, while it counts. It reports
// whether it did.
func (a *Account) Refund(now time.Time, r *Receipt) bool {
	serial, err := strconv.ParseUint(r.Serial, 36, 64)
	if err != nil || serial < 1 || serial > a.serial || r.Policy == nil || r.Cost < 1 {
		return false
	}
	from, now := a.at(now)
	ends := countsUntil(r.Policy, r.At)
	if _, done := a.refunded[serial]; done || ends <= now.UnixNano() {
		return false
	}
	if from != a || r.At.After(now) {
		return false // a wrong clock has charged it, and that counts no more
	}
	if a.refunded == nil {
		a.refunded = make(map[uint64]int64)
	}
	for s, when := range a.refunded {
		if when <= a.latest { // not now, which may be a clock that is wrong for a moment
			delete(a.refunded, s)
		}
	}
	a.refunded[serial] = ends
	s := a.open(now, r.Policy)
	s.restore(r.At, r.Cost)
	a.store(&s)
	return true
}

// Idle reports whether nothing of the account counts any more: it may be forgotten.
func (a *Account) Idle(now time.Time) bool {
	from, at := a.at(now)
	second := at.Unix()
	return !slices.ContainsFunc(from.entries, func(e entry) bool { return e.ends > second })
}

// at returns the account as it is to be decided, and when: now, or the latest time seen
// where a clock has stepped back. What a clock that was wrong has charged counts nothing,
// but no serial is given twice, and no refund.
func (a *Account) at(now time.Time) (*Account, time.Time) {
	switch ns := now.UnixNano(); {
	case ns >= a.latest:
		return a, now
	case a.latest-ns > a.hold:
		return &Account{serial: a.serial, refunded: a.refunded}, now
	}
	return a, time.Unix(0, a.latest)
}

// later adds to what a verdict says of an account that stands still how long that lasts.
func (v *Verdict) later(by time.Duration) {
	if by <= 0 {
		return
	}
	by = wholeSeconds(int64(by))
	if v.Wait > 0 {
		v.Wait += by
	}
	for i := range v.Limits {
		if v.Limits[i].Reset > 0 {
			v.Limits[i].Reset += by
		}
	}
}

// entry returns what a limit has counted, or nil.
func (a *Account) entry(id uint32) *entry {
	for i := range a.entries {
		if a.entries[i].id == id {
			return &a.entries[i]
		}
	}
	return nil
}

// open returns the account under the limits of a policy, at a time.
func (a *Account) open(now time.Time, p *Policy) (s working) {
	s.policy, s.now = p, now
	if p.hasLog {
		s.logs = make([]chargeLog, len(p.limits))
	}
	for i := range p.limits {
		e := a.entry(p.ids[i])
		switch {
		case e == nil:
		case logged(p.limits[i].Algorithm):
			s.logs[i] = e.log
			s.logs[i].roll(now.UnixNano())
		default:
			s.tally[i] = e.state
		}
	}
	return s
}

// store puts back what a working copy has changed, and forgets what has ended.
func (a *Account) store(s *working) {
	second := s.now.Unix()
	a.entries = slices.DeleteFunc(a.entries, func(e entry) bool { return e.ends <= second })
	if !slices.ContainsFunc(a.entries, func(e entry) bool { return !slices.Contains(s.policy.ids[:], e.id) }) {
		a.hold = 0 // nothing of another policy is left
	}
	a.hold = max(a.hold, s.policy.hold)
	for i := range s.policy.limits {
		id := s.policy.ids[i]
		e := a.entry(id)
		if e == nil {
			if len(a.entries) == maxEntries {
				first := slices.IndexFunc(a.entries, func(e entry) bool { return !slices.Contains(s.policy.ids[:], e.id) })
				for j := range a.entries {
					if a.entries[j].ends < a.entries[first].ends && !slices.Contains(s.policy.ids[:], a.entries[j].id) {
						first = j
					}
				}
				a.entries = slices.Delete(a.entries, first, first+1)
			}
			a.entries = append(a.entries, entry{id: id})
			e = &a.entries[len(a.entries)-1]
		}
		if logged(s.policy.limits[i].Algorithm) {
			e.log = s.logs[i]
		} else {
			e.state = s.tally[i]
		}
		e.ends = s.ends(i)
	}
}

// countsUntil returns from when a charge made at a time counts in no window of p, in
// Unix ns.
func countsUntil(p *Policy, at time.Time) (last int64) {
	for i := range p.limits {
		l := &p.limits[i]
		w := int64(l.Window)
		switch l.Algorithm {
		case storeless.SlidingWindow:
			last = max(last, (at.UnixNano()/w+2)*w)
		case storeless.FixedWindow:
			last = max(last, (at.UnixNano()/w+1)*w)
		case storeless.SlidingLog, storeless.RollingDay:
			last = max(last, until(l, at))
		default:
			last = max(last, at.UnixNano()+w)
		}
	}
	return last
}
