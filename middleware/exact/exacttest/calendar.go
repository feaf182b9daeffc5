// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"time"
	_ "time/tzdata" // a test must not hang on the system that it runs on

	"github.com/tallystick/tallystick/middleware/exact"
)

// at moves the clock to a moment. The dates of these checks lie far ahead: what has ended an engine may forget by a clock of
// its own.
func (r *run) at(moment time.Time) { r.clock.Advance(moment.Sub(r.clock.Now())) }

// windowEnds spends a quota on days at whose end something is odd, and checks that the refusal says when that is.
func windowEnds(r *run) {
	for n, of := range []struct{ unit, zone, at, end string }{
		{"month", "UTC", "2095-01-30T12:00:00Z", "2095-02-01T00:00:00Z"}, // 36 hours before a February
		{"month", "America/New_York", "2095-03-01T05:00:00Z", "2095-04-01T04:00:00Z"},
		{"day", "Africa/Cairo", "2095-04-27T22:00:00Z", "2095-04-28T22:00:00Z"},  // the next day begins at 1 o'clock
		{"week", "UTC", "2095-10-02T23:59:59Z", "2095-10-03T00:00:00Z"},          // a Sunday
		{"day", "Europe/Berlin", "2095-10-29T22:00:00Z", "2095-10-30T23:00:00Z"}, // 25 hours
		{"month", "Asia/Tokyo", "2096-02-29T14:59:59Z", "2096-02-29T15:00:00Z"},  // a leap day
		{"day", "Europe/Berlin", "2096-03-24T23:00:00Z", "2096-03-25T22:00:00Z"}, // 23 hours
		{"week", "Europe/Berlin", "2096-12-31T23:00:00Z", "2097-01-06T23:00:00Z"},
	} {
		p, key := policy(calendar(3, of.unit, of.zone), fixed(1000, long)), r.key(n)
		at, _ := time.Parse(time.RFC3339, of.at)
		end, _ := time.Parse(time.RFC3339, of.end)
		r := r.in("a %s in %s, at %s", of.unit, of.zone, of.at)
		r.at(at)
		r.want(p, key, 1, true, 2)
		r.want(p, key, 2, true, 0)
		v := r.take(p, key, 1)
		if wait := end.Sub(at); v.Admitted || v.Wait != wait || v.Limits[0].Reset != wait {
			r.fail("%+v, want a refusal for %s", v.Verdict, wait)
		}
		r.clock.Advance(v.Wait - time.Second)
		r.in("a second before its end").want(p, key, 1, false, 0)
		r.clock.Advance(time.Second)
		r.in("at its end").want(p, key, 3, true, 0)
	}
}

// calendars compares a counter with the dates of its charges.
func calendars(r *run) {
	dates := map[string]string{"day": "2006-01-02", "month": "2006-01"}
	for n, of := range []struct {
		unit, zone string
		begin      time.Month
		step       time.Duration
	}{{"day", "Europe/Berlin", time.March, 15 * time.Hour}, {"day", "America/Santiago", time.August, 15 * time.Hour}, {"week", "Australia/Sydney", time.September, 4 * day}, {"month", "UTC", time.November, 20 * day}} {
		const quota = 6
		p, in := policy(calendar(quota, of.unit, of.zone)), location(r, of.zone)
		r.at(time.Date(2095, of.begin, 20, 0, 0, 0, 0, time.UTC))
		window, used := "", int64(0)
		var last exact.Receipt
		for step := range 150 {
			r := r.in("%s in %s, step %d", of.unit, of.zone, step)
			r.clock.Advance(of.step * time.Duration(step*step%11) / 11)
			local := r.clock.Now().In(in)
			is := local.Format(dates[of.unit])
			if of.unit == "week" {
				is = local.AddDate(0, 0, -int(local.Weekday()+6)%7).Format("2006-01-02")
			}
			if is != window {
				window, used = is, 0
				if last.Policy != nil {
					r.in("the window of the charge is over").gone(last)
				}
			}
			cost := int64(1 + step%3)
			v := r.take(p, r.key(n), cost)
			if v.Admitted {
				last = v.Receipt
				if used += cost; step%7 == 3 {
					r.back(last)
					used -= cost
					continue
				}
			}
			if fits := used+cost <= quota; !v.Admitted && fits || used > quota || v.Limits[0].Remaining != quota-used {
				r.fail("%+v, with %d used of %d in the window of %s", v.Verdict, used, quota, is)
			}
		}
	}
}

func location(r *run, name string) *time.Location {
	in, err := time.LoadLocation(name)
	r.no(err)
	return in
}

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
