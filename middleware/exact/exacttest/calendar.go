// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"time"
	_ "time/tzdata" // a test must not hang on the system that it runs on
)

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
