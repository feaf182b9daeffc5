// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"fmt"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// pauses of keys that have counted nothing, and of one that has.
func pauses(r *run) {
	p := policy(fixed(5, long))
	for n := range 2 {
		key := r.key(n)
		if n == 1 {
			r.want(p, key, 2, true, 3)
		}
		v := r.call(exact.Call{Key: key, Policy: p, Pause: time.Hour, ID: "a"})
		if !v.Admitted {
			r.fail("a pause is refused")
		}
		r.in("a pause given back").gone(v.Receipt)
		if again := r.call(exact.Call{Key: key, Policy: p, Pause: 2 * time.Hour, ID: "a"}); !again.Admitted || !again.Replayed || again.Wait != 0 || again.Receipt != (exact.Receipt{}) {
			r.fail("the same ID again: %+v, want the first verdict, Replayed, and no wait", again)
		}
		// A shorter one changes nothing.
		r.call(exact.Call{Key: key, Policy: p, Pause: time.Minute})
		for _, ask := range []func(exact.Call) exact.Verdict{r.call, r.look} {
			v := ask(exact.Call{Key: key, Cost: 1, Policy: p})
			if v.Admitted || v.Impossible || v.Wait <= 50*time.Minute || v.Wait > time.Hour || v.Limits[0].Remaining != 0 {
				r.fail("in a pause of an hour: %+v, want a refusal for it", v.Verdict)
			}
		}
		if v := r.call(exact.Call{Key: key, Cost: 1, Policy: p, Past: true}); !v.Admitted {
			r.fail("what was used already is refused in a pause")
		}
	}
	r.want(p, r.key(2), 5, true, 0)
}

// pauseEnds checks that nothing is admitted or booked in a pause, that what was booked before
// stays, and that all is as before when it is over.
func pauseEnds(r *run) {
	p, key := policy(storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 1, Window: time.Second}), r.key(0)
	var waits []int64
	for n := range 5 {
		if n == 3 {
			r.call(exact.Call{Key: key, Policy: p, Pause: 20 * time.Second})
		}
		waits = append(waits, int64(r.book(p, key, "").Wait/time.Second))
	}
	if want := "[0 1 2 20 21]"; fmt.Sprint(waits) != want {
		r.fail("three booked, a pause of 20 s, two booked: seconds %v, want %s", waits, want)
	}
	if v := r.take(p, key, 1); v.Admitted || v.Wait != 22*time.Second {
		r.fail("behind these, and in the pause: %+v, want a refusal for 22 s", v.Verdict)
	}
	if !r.call(exact.Call{Key: r.key(1), Policy: p, Pause: 20 * time.Second}).Admitted {
		r.fail("a pause is refused")
	}
	refused := r.call(exact.Call{Key: r.key(1), Cost: 1, Policy: p, Ahead: 5 * time.Second})
	if refused.Admitted || refused.Wait != 15*time.Second {
		r.fail("5 s ahead in a pause of 20 s: admitted is %t, wait %s, want a refusal for 15 s", refused.Admitted, refused.Wait)
	}
	refused = r.take(p, r.key(1), 1)
	if refused.Admitted || refused.Wait != 20*time.Second {
		r.fail("in a pause of 20 s: admitted is %t, wait %s", refused.Admitted, refused.Wait)
	}
	r.clock.Advance(20*time.Second - time.Microsecond)
	r.in("before the pause is over").want(p, r.key(1), 1, false, 0)
	r.clock.Advance(time.Microsecond)
	r.want(p, r.key(1), 1, true, 0)
}
