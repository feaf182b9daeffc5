// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// An event is a charge that a brute-force log remembers.
type event struct {
	at   time.Time
	cost int64
}

// charged sums what was charged in the last span.
func charged(now time.Time, log []event, span time.Duration) (sum int64) {
	for _, e := range log {
		if now.Sub(e.at) < span {
			sum += e.cost
		}
	}
	return sum
}

func slidingLog(r *run) {
	const quota, window = 20, time.Minute
	p := policy(storeless.Limit{Algorithm: storeless.SlidingLog, Quota: quota, Window: window}, fixed(500, 365*24*time.Hour))
	var log []event
	for step := range 600 {
		r.clock.Advance(time.Duration(step*step%23) * time.Second / 4)
		now, cost := r.clock.Now(), int64(1+step%3)
		v := r.take(p, r.key(0), cost)
		fits := charged(now, log, window)+cost <= quota && charged(now, log, 24*time.Hour)+cost <= 500
		if v.Admitted != fits {
			r.fail("step %d: admitted is %t, the log says %t", step, v.Admitted, fits)
		}
		if v.Admitted {
			log = append(log, event{now, cost})
		}
		if left := quota - charged(now, log, window); v.Limits[0].Remaining != left {
			r.fail("step %d: %d remaining, the log says %d", step, v.Limits[0].Remaining, left)
		}
	}
}

// unleased is a cost so high that a block of package lease has no room for two such calls: it makes a call of the engine for
// each.
const unleased = 33

func rollingDay(r *run) {
	const quota, window = 300 * unleased, 24 * time.Hour
	p := policy(storeless.Limit{Algorithm: storeless.RollingDay, Quota: quota, Window: window})
	var log []event
	for step := range 1500 {
		r.clock.Advance(time.Duration(step*step%37) * 11 * time.Second)
		now, cost := r.clock.Now(), int64(1+step%3)*unleased
		v := r.take(p, r.key(0), cost)
		if v.Admitted {
			log = append(log, event{now, cost})
		}
		if sum := charged(now, log, window); sum > quota {
			r.fail("step %d: %d admitted in 24 h, at a limit of %d", step, sum, quota)
		}
		if !v.Admitted && charged(now, log, window+time.Minute)+cost <= quota {
			r.fail("step %d: refused, though 24 h and a minute have room", step)
		}
	}
	if charged(r.clock.Now(), log, 365*window) < 2*quota {
		r.fail("hardly anything is admitted")
	}
}

// logWaits checks that a refusal passes when it says, and not before.
func logWaits(r *run) {
	for n, l := range []storeless.Limit{
		{Algorithm: storeless.SlidingLog, Quota: 4, Window: time.Minute},
		{Algorithm: storeless.RollingDay, Quota: 4, Window: 24 * time.Hour},
	} {
		p := policy(l)
		for cost := int64(1); cost <= 4; cost++ {
			key := r.key(10*n + int(cost))
			for range 4 {
				r.want(p, key, 1, true)
				r.clock.Advance(l.Window / 20)
			}
			v := r.take(p, key, cost)
			if v.Admitted || v.Wait < time.Second || v.Limits[0].Reset != v.Wait {
				r.fail("%s: %+v, want a refusal with its wait", l.Algorithm, v.Verdict)
			}
			r.clock.Advance(v.Wait - time.Second)
			r.in("%s: a second before its time", l.Algorithm).want(p, key, cost, false)
			r.clock.Advance(time.Second)
			r.in("%s: when its time has come", l.Algorithm).want(p, key, cost, true)
		}
	}
}
