package cas

import (
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
)

// take takes a call of an account.
func take(a *exact.Account, now time.Time, call *exact.Call) exact.Verdict { return a.Take(now, call) }

// expires returns from when an account may be forgotten.
func expires(a *exact.Account, now time.Time) time.Time {
	lo, hi := now, now.Add(time.Second)
	for !a.Idle(hi) {
		lo, hi = hi, hi.Add(2*hi.Sub(now))
	}
	for hi.Sub(lo) > time.Second {
		if mid := lo.Add(hi.Sub(lo) / 2); a.Idle(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}
