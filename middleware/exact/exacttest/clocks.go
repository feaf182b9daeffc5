// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"time"
	_ "time/tzdata" // a test must not hang on the system that it runs on

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

func stepBack(r *run) {
	p := policy(fixed(5, time.Minute))
	r.want(p, r.key(0), 5, true, 0)
	again := exact.Call{Key: r.key(1), Cost: 1, Policy: p, ID: "again"}
	r.call(again)
	r.clock.Advance(-40 * time.Second)
	if v := r.call(again); !v.Replayed || v.Wait != 0 {
		r.fail("40 s back, admitted before: %+v, want no wait", v)
	}
	v := r.take(p, r.key(0), 1)
	switch {
	case v.Admitted:
		r.fail("40 s back: a fresh quota")
	case v.Wait < 100*time.Second || v.Wait > 101*time.Second || v.Limits[0].Reset != v.Wait:
		r.fail("40 s back, at the start of a minute: a wait of %s, want 100 s", v.Wait)
	}
	r.clock.Advance(v.Wait - 2*time.Second)
	r.in("40 s back, before the wait is over").want(p, r.key(0), 1, false, 0)
	r.clock.Advance(2 * time.Second)
	r.want(p, r.key(0), 5, true, 0)
	// A refusal, or a peek, in the next window, and back: no key has a quota twice.
	for n, l := range []storeless.Limit{fixed(5, time.Minute), {Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Minute},
		{Quota: 5, Window: time.Minute}, {Algorithm: storeless.TokenBucket, Quota: 5, Window: time.Minute}} {
		p, key := policy(l), r.key(1+n)
		r.want(p, key, 5, true, 0)
		r.clock.Advance(70 * time.Second)
		r.want(p, key, 6, false)
		r.look(exact.Call{Key: key, Cost: 1, Policy: p})
		r.clock.Advance(-40 * time.Second)
		admitted := 0
		for range 10 {
			if r.take(p, key, 1).Admitted {
				admitted++
			}
		}
		// Whether time stands still at the refusal or not, no more than fits then.
		if most := map[storeless.Algorithm]int{storeless.TokenBucket: 5, storeless.SlidingLog: 5}[l.Algorithm]; admitted > most {
			r.fail("%s: %d admitted after a clock that stepped forth and back, want at most %d", l.Algorithm, admitted, most)
		}
		r.clock.Advance(10 * time.Minute)
	}
}

// owedBack has a clock step back by more than a bucket's window, and by less than it owes, pauses for, or has booked: that is no
// fault of the clock, and it holds.
func owedBack(r *run) {
	p := policy(storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 1, Window: 10 * time.Second})
	for n, first := range []exact.Call{{Cost: 100, Past: true}, {Pause: time.Hour}, {Cost: 1, Ahead: exact.MaxAhead}} {
		first.Key, first.Policy = r.key(n), p
		for range 11 {
			if v := r.call(first); !v.Admitted {
				r.fail("a debt, a pause or a booking is refused")
			}
		}
		r.clock.Advance(-time.Minute)
		v := r.take(p, first.Key, 1)
		if v.Admitted || v.Wait <= time.Minute {
			r.fail("a minute before a debt, a pause or a booking: %+v, want a refusal until it is over", v.Verdict)
		}
		r.clock.Advance(time.Minute)
	}
}

// momentAhead has a clock be days ahead while others are counted: no key has a fresh quota then.
func momentAhead(r *run) {
	const keys = 64
	start := r.clock.Now()
	p := policy(fixed(1, 24*time.Hour))
	for n := range keys {
		r.want(p, r.key(n), 1, true, 0)
	}
	r.clock.Advance(3 * 24 * time.Hour)
	for n := range 3 * keys {
		r.want(p, r.key(keys+n), 1, true, 0)
		r.clock.Advance(time.Second)
	}
	r.clock.Advance(start.Sub(r.clock.Now()))
	for n := range keys {
		r.in("after a clock that was 3 days ahead, while other keys were counted").want(p, r.key(n), 1, false, 0)
	}
}

// wrongClock has a clock jump ahead, a quota be spent there, and the clock come back: the
// account begins anew, once, and what it was charged there is nothing to refund.
func wrongClock(r *run) {
	for n, l := range []storeless.Limit{
		fixed(5, time.Minute), {Quota: 5, Window: time.Minute},
		{Algorithm: storeless.TokenBucket, Quota: 5, Window: time.Minute}, {Algorithm: storeless.LeakyBucket, Quota: 5, Window: time.Minute},
		{Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Minute}, {Algorithm: storeless.RollingDay, Quota: 5, Window: 24 * time.Hour},
	} {
		p, key := policy(l), r.key(n)
		spend := func() (receipts []exact.Receipt) {
			for range 10 {
				if v := r.take(p, key, 1); v.Admitted {
					receipts = append(receipts, v.Receipt)
				}
			}
			return receipts
		}
		first := spend()
		r.clock.Advance(365 * 24 * time.Hour)
		there := spend()
		r.clock.Advance(time.Minute - 365*24*time.Hour)
		r.in("%s: a refund of what a wrong clock charged", l.Algorithm).gone(there[0])
		if v := r.look(exact.Call{Key: key, Cost: 1, Policy: p}); !v.Admitted {
			r.fail("%s: a clock that was a year ahead for a moment locks out for %s", l.Algorithm, v.Wait)
		}
		again := spend()
		if len(again) != len(first) {
			r.fail("%s: %d admitted after a clock that was a year ahead, want %d", l.Algorithm, len(again), len(first))
		}
		r.in("%s: a late refund of what a wrong clock charged", l.Algorithm).gone(there[0])
		r.in("%s: a refund after a wrong clock", l.Algorithm).back(again[0])
		if more := spend(); len(more) != 1 {
			r.fail("%s: %d admitted after a refund, want 1", l.Algorithm, len(more))
		}
	}
}

// at moves the clock to a moment. The dates of these checks lie far ahead: what has ended an engine may forget by a clock of
// its own.
func (r *run) at(moment time.Time) { r.clock.Advance(moment.Sub(r.clock.Now())) }

// laterEnd has two processes differ in when a window ends: it ends when the later of them says, and what the other charges
// by then is charged in it. The next one ends when it should.
func laterEnd(r *run) {
	for n, first := range []bool{false, true} {
		early, late := policy(calendar(5, "month", "Europe/Berlin")), policy(calendar(5, "month", "UTC"))
		key := r.key(n)
		end := time.Date(2095, time.November+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
		r.at(end.Add(-36 * time.Hour))
		if first {
			r.want(late, key, 1, true, 4)
			r.want(early, key, 1, true, 3)
		} else {
			r.want(early, key, 1, true, 4)
			r.want(late, key, 1, true, 3)
		}
		r.in("what ends later comes back").back(r.take(early, key, 2).Receipt)
		r.at(end.Add(-30 * time.Minute))
		r.in("when it is over for one").want(early, key, 2, true, 1)
		if v := r.take(early, key, 2); v.Admitted || v.Wait != 30*time.Minute {
			r.fail("over for one: %+v, want a refusal for 30 minutes", v.Verdict)
		}
		r.clock.Advance(30 * time.Minute)
		r.in("when it is over for both").want(early, key, 5, true, 0)
		if v := r.take(early, key, 1); v.Admitted || v.Wait < 27*24*time.Hour || v.Wait > 31*24*time.Hour {
			r.fail("in the next: %+v, want a refusal to its end", v.Verdict)
		}
	}
}
