// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// dates is what limits of the calendar admit, by the dates of what was charged: no window begins or ends there.
type dates struct {
	in     *time.Location
	limits []storeless.Limit
	used   []map[string]int64 // of each limit, by the name of the window
	latest time.Time
}

// at is when a call is decided, and in which window of each limit: the date that clocks show, or will show again.
func (d *dates) at(now time.Time) (_ time.Time, windows []string) {
	if now.Before(d.latest) {
		now = d.latest
	}
	return now, d.windows(now)
}

func (d *dates) windows(now time.Time) (windows []string) {
	local := now.In(d.in)
	date := local.Format("2006-01-02")
	if _, change := local.ZoneBounds(); change.After(now) && change.Sub(now) < 26*time.Hour {
		date = min(date, change.In(d.in).Format("2006-01-02"))
	}
	day, _ := time.Parse("2006-01-02", date)
	for _, l := range d.limits {
		name := date
		switch l.Calendar {
		case "week":
			name = day.AddDate(0, 0, -(int(day.Weekday())+6)%7).Format("2006-01-02")
		case "month":
			name = date[:7]
		}
		windows = append(windows, name)
	}
	return windows
}

// costsOf returns what a call, or a receipt, is about on each limit.
func costsOf(cost int64, costs [storeless.MaxLimits]int64) [storeless.MaxLimits]int64 {
	if costs == ([storeless.MaxLimits]int64{}) {
		costs = [storeless.MaxLimits]int64{cost, cost, cost}
	}
	return costs
}

// An account and the dates of its charges agree: what is admitted, with a cost on each limit, what remains, what comes back. A
// million steps in all, in zones where midnight is missing, comes twice, or a day is left out; by a clock that steps back too.
func TestAccountsAreTheDates(t *testing.T) {
	zones := []struct {
		name string
		from int
	}{{"UTC", 2027}, {"Europe/Berlin", 2026}, {"Pacific/Apia", 2011}, {"America/Sao_Paulo", 2016}, {"America/St_Johns", 2005}, {"Africa/Cairo", 2024}, {"Australia/Lord_Howe", 2099}, {"Antarctica/Casey", 2009}}
	steps := 1_000_000 / len(zones)
	if kit.Brief() {
		steps = 2500
	}
	for n, zone := range zones {
		in := kit.Must(time.LoadLocation(zone.name))(t)
		rng := rand.New(rand.NewPCG(uint64(n), 42))
		begin := time.Date(zone.from, 1, 1, 0, 0, 0, 0, time.UTC)
		limits := []storeless.Limit{{Name: "a", Quota: 5, Calendar: "day", Zone: zone.name}, {Name: "b", Quota: 20, Calendar: "week", Zone: zone.name}, {Name: "c", Quota: 60, Calendar: "month", Zone: zone.name}}
		p := exactkit.Compile(t, limits...)
		type charge struct {
			receipt exact.Receipt
			windows []string
		}
		var a *engine.Account
		var d *dates
		var charges []charge
		now := begin
		for step := range steps {
			if a == nil || now.Sub(begin) > 2*year {
				a, now, charges = new(engine.Account), begin.Add(time.Duration(rng.Int64N(int64(day)))), nil
				d = &dates{in: in, limits: limits, used: []map[string]int64{{}, {}, {}}}
			}
			switch rng.IntN(40) {
			case 0:
				now = now.Add(-time.Duration(rng.Int64N(int64(3 * time.Hour))))
			case 1:
				now = now.Add(time.Duration(rng.Int64N(int64(9 * day))))
			case 2: // to the end of a window
				_, end := p.Plan().Calendars[rng.IntN(3)].Around(now)
				now = end.Add(time.Duration(rng.Int64N(3)-1) * time.Nanosecond)
			case 3:
				reload(t, a)
			default:
				now = now.Add(time.Duration(rng.Int64N(int64(3 * time.Hour))))
			}
			at, windows := d.at(now)
			if rng.IntN(6) == 0 && len(charges) > 0 {
				i := len(charges) - 1 - rng.IntN(min(len(charges), 30))
				c := charges[i]
				if j := rng.IntN(3); c.receipt.Costs[j] > 0 { // of one limit alone
					c.receipt.Cost = c.receipt.Costs[j]
					clear(c.receipt.Costs[:])
					c.receipt.Costs[j] = c.receipt.Cost
				}
				back, costs := false, costsOf(c.receipt.Cost, c.receipt.Costs)
				for j, w := range c.windows {
					if w == windows[j] {
						back = true
						d.used[j][w] = max(0, d.used[j][w]-costs[j])
					}
				}
				err := a.Refund(now, &c.receipt)
				require.Equal(t, back, err == nil, "%s, step %d: %v", zone.name, step, err)
				charges = append(charges[:i], charges[i+1:]...)
				for j, w := range windows {
					if back { // what it is over for is forgotten, also if the clock steps back again
						d.used[j] = map[string]int64{w: d.used[j][w]}
					}
				}
				continue
			}
			call := exact.Call{Key: "k", Cost: 1 + rng.Int64N(3), Policy: p, Past: rng.IntN(20) == 0}
			if rng.IntN(2) == 0 {
				call.Costs = [storeless.MaxLimits]int64{rng.Int64N(3), rng.Int64N(3), 1}
				call.Cost = slices.Max(call.Costs[:])
			}
			fits, costs := true, costsOf(call.Cost, call.Costs)
			for i, w := range windows {
				fits = fits && (costs[i] == 0 || d.used[i][w]+costs[i] <= limits[i].Quota)
			}
			v := a.Take(now, &call)
			require.Equal(t, fits || call.Past, v.Admitted, "%s, step %d, at %s", zone.name, step, at)
			if v.Admitted {
				for i, w := range windows {
					d.used[i][w] += costs[i]
				}
				d.latest = at
				charges = append(charges, charge{v.Receipt, windows})
			}
			for i, w := range windows {
				require.Equal(t, max(0, limits[i].Quota-d.used[i][w]), v.Limits[i].Remaining, "%s, step %d, limit %d, at %s", zone.name, step, i, at)
			}
			if v.Wait > 0 { // the refusal ends when the last window that refuses does, and not before
				later := d.windows(now.Add(v.Wait))
				before := d.windows(now.Add(v.Wait - 2*time.Second)) // an account that stands still rounds up twice
				fits, fitted := true, true
				for i := range windows {
					fits = fits && (costs[i] == 0 || d.used[i][later[i]]+costs[i] <= limits[i].Quota)
					fitted = fitted && (costs[i] == 0 || d.used[i][before[i]]+costs[i] <= limits[i].Quota)
				}
				require.True(t, fits && !fitted, "%s, step %d, at %s: a wait of %s", zone.name, step, now, v.Wait)
			}
		}
	}
}
