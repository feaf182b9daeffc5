// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"
	_ "time/tzdata" // a test must not hang on the system that it runs on

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
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

// A dated limit is what a check knows of one with windows of the calendar: what each date has counted.
type dated struct {
	of   storeless.Limit
	in   *time.Location
	used map[string]int64
}

// date names the window of a moment.
func (d *dated) date(at time.Time) string {
	local := at.In(d.in)
	switch d.of.Calendar {
	case "month":
		return local.Format("2006-01")
	case "week":
		local = local.AddDate(0, 0, -int(local.Weekday()+6)%7)
	}
	return local.Format("2006-01-02")
}

// A paid call is one that was admitted, and what of it has not come back.
type paidCall struct {
	receipt exact.Receipt
	left    [storeless.MaxLimits]int64
}

// calendars compares a counter with the dates of its charges: with a cost on each limit, past the limit and with what comes back
// of one limit and another, in the window of the charge and after it.
func calendars(r *run) {
	for n, of := range []struct {
		unit, zone string
		begin      time.Month
		step       time.Duration
	}{{"day", "Europe/Berlin", time.March, 15 * time.Hour}, {"day", "America/Santiago", time.August, 15 * time.Hour}, {"week", "Australia/Sydney", time.September, 4 * day}, {"month", "UTC", time.November, 20 * day}} {
		month := calendar(40, "month", "Pacific/Auckland")
		month.Name = "month"
		limits := []storeless.Limit{calendar(6, of.unit, of.zone), month, {Name: "sum", Algorithm: storeless.FixedWindow, Quota: 1 << 20, Window: long}}
		p, rng := policy(limits[:2+n%2]...), rand.New(rand.NewPCG(uint64(n), 7))
		var kept []dated
		for _, l := range limits[:2] {
			kept = append(kept, dated{l, location(r, l.Zone), map[string]int64{}})
		}
		r.at(time.Date(2095, of.begin, 20, 0, 0, 0, 0, time.UTC))
		var held []paidCall
		for step := range 400 {
			r := r.in("%s in %s, step %d", of.unit, of.zone, step)
			r.clock.Advance(of.step * time.Duration(step*step%11) / 33)
			now := r.clock.Now()
			if len(held) > 0 && rng.IntN(3) == 0 {
				r.comesBack(&held[rng.IntN(len(held))], kept, rng)
			}
			call := exact.Call{Key: r.key(n), Cost: 1 + rng.Int64N(3), Policy: p, Past: rng.IntN(8) == 0}
			apart(rng, &call)
			costs, fits := costsOf(&call), true
			for i, d := range kept {
				fits = fits && (costs[i] == 0 || d.used[d.date(now)]+costs[i] <= d.of.Quota)
			}
			v := r.call(call)
			if fits = fits || call.Past; fits {
				for i, d := range kept {
					d.used[d.date(now)] += costs[i]
				}
				held = append(held, paidCall{v.Receipt, costs})
			}
			for i, d := range kept {
				if left := max(0, d.of.Quota-d.used[d.date(now)]); v.Admitted != fits || v.Limits[i].Remaining != left {
					r.fail("costs %v: %+v, want admitted to be %t, and %d remaining in the %s", costs, v.Verdict, fits, left, d.of.Calendar)
				}
			}
		}
	}
}

// costsOf returns what a call costs on each limit.
func costsOf(call *exact.Call) (costs [storeless.MaxLimits]int64) {
	if costs = call.Costs; costs == ([storeless.MaxLimits]int64{}) {
		for i := range call.Policy.Len() {
			costs[i] = call.Cost
		}
	}
	return costs
}

// comesBack gives back what is left of a call, or some limits of it: where the window of the charge is over, for nothing.
func (r *run) comesBack(of *paidCall, kept []dated, rng *rand.Rand) {
	back := of.receipt
	if back.Costs != ([storeless.MaxLimits]int64{}) {
		for i := range back.Costs {
			back.Costs[i] *= rng.Int64N(2)
		}
		back.Cost = slices.Max(back.Costs[:])
	}
	if back.Cost == 0 {
		return
	}
	err := r.Refund(context.Background(), back)
	if !errors.Is(err, exact.ErrNoRefund) {
		r.no(err)
	}
	open := back.Policy.Len() > len(kept) && back.At.UnixNano()/int64(long) == r.clock.Now().UnixNano()/int64(long)
	for _, d := range kept {
		open = open || d.date(back.At) == d.date(r.clock.Now())
	}
	costs, left := costsOf(&exact.Call{Cost: back.Cost, Costs: back.Costs, Policy: back.Policy}), false
	for i := range costs {
		cost := min(costs[i], of.left[i])
		if !open || cost == 0 {
			continue
		}
		left, of.left[i] = true, 0
		if i < len(kept) && kept[i].date(back.At) == kept[i].date(r.clock.Now()) {
			kept[i].used[kept[i].date(back.At)] -= cost
		}
	}
	if left != (err == nil) {
		r.fail("%v of a charge at %s, with %v left to give back", err, back.At, of.left)
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
