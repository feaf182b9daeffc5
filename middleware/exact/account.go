package exact

import (
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// An account is what one key has counted under one policy. It is pure: the clock is
// an argument. The zero account has counted nothing.
type account struct {
	tally    storeless.Tally
	ids      [storeless.MaxLimits]uint32 // of the limits that the tally is of
	latest   time.Time                   // that it has seen: for it, time does not step back
	expires  int64                       // Unix second from which nothing of it counts
	serial   uint64                      // of the last receipt
	refunded map[uint64]time.Time
}

// moment returns now, or the latest time seen where a clock has stepped back: an
// earlier window would be a fresh quota.
func (a *account) moment(now time.Time) time.Time {
	if now.Before(a.latest) {
		return a.latest
	}
	return now
}

// take decides a call and charges it. It returns the serial of the charge; 0 if it
// was refused.
func (a *account) take(p *Policy, now time.Time, cost int64) (v storeless.Verdict, at time.Time, serial uint64) {
	at = a.moment(now)
	a.fit(p)
	a.tally, v = p.tokens.Step(at, a.tally, cost)
	if !v.Admitted {
		return v, at, 0
	}
	a.latest = at
	a.expires = p.tokens.Expires(a.tally)
	a.serial++
	return v, at, a.serial
}

// peek says what take would.
func (a *account) peek(p *Policy, now time.Time, cost int64) storeless.Verdict {
	a.fit(p)
	return storeless.Peek(nil, p.tokens, a.moment(now), &storeless.Family{Shown: a.tally}, cost)
}

// refund gives back a charge, once, while it counts. It reports whether it did.
func (a *account) refund(p *Policy, now, at time.Time, cost int64, serial uint64) bool {
	now = a.moment(now)
	a.fit(p)
	if _, done := a.refunded[serial]; done || serial > a.serial || !counts(p, at, now) {
		return false
	}
	if a.refunded == nil {
		a.refunded = make(map[uint64]time.Time)
	}
	for s, when := range a.refunded { // they say nothing any more
		if !counts(p, when, now) {
			delete(a.refunded, s)
		}
	}
	a.refunded[serial] = at
	a.tally = storeless.Restore(nil, p.tokens, at, now, &storeless.Family{Shown: a.tally}, cost)
	return true
}

// fit puts the states where p has their limits. A policy that was reconfigured keeps
// the counts of the limits that it kept; new ones begin at zero.
func (a *account) fit(p *Policy) {
	if a.ids == p.ids {
		return
	}
	var tally storeless.Tally
	for i := range p.limits {
		for j, id := range a.ids {
			if id == p.ids[i] && a.serial > 0 {
				tally[i] = a.tally[j]
			}
		}
	}
	a.tally, a.ids = tally, p.ids
}

// idle reports whether nothing of the account counts any more.
func (a *account) idle(now time.Time) bool { return a.moment(now).Unix() >= a.expires }

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
		default:
			if now.Sub(at) < l.Window {
				return true
			}
		}
	}
	return false
}
