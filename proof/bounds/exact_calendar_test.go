// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
)

// A client that asks all instances whenever they may admit it, while the counter fails until a minute before the month ends, and
// that spends the month then, gets what the row says, or a little less. The windows that stand in are aligned to 1970: the first of the months is one that begins just before such
// a window ends.
func TestOutageOfACalendar(t *testing.T) {
	for unit, step := range map[string]time.Duration{"day": 10 * time.Minute, "week": time.Hour, "month": 2 * time.Hour} {
		const quota, instances = 60, 3
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Instances, cfg.Limits = instances, []middleware.Limit{{Name: "calendar", Quota: quota, Calendar: unit}}
		cfg.Exact = &middleware.Exact{Outage: middleware.FailOpen}
		b, err := middleware.BoundsOf(cfg)
		require.NoError(t, err)
		window := b.Rows[0].Limit.Window
		f := newFleet(t, cfg)
		begins, ends := worst(f.now.Now(), unit, window)
		f.now.Advance(begins.Sub(f.now.Now()))
		f.down = true
		left := window - time.Duration(begins.UnixNano()%int64(window)) - time.Second
		f.now.Advance(left) // to the last second of the window that stands in
		for ; f.now.Now().Before(ends.Add(-time.Minute)); f.now.Advance(min(step, ends.Add(-time.Minute).Sub(f.now.Now()))) {
			f.drain()
		}
		require.LessOrEqual(t, len(f.admitted), int(b.Rows[1].Admitted)-quota, "a %s", unit)
		for f.down = false; f.now.Now().Before(ends); f.now.Advance(5 * time.Second) {
			f.drain()
		}
		bound := b.Rows[1].Admitted
		require.LessOrEqual(t, len(f.admitted), int(bound), "a %s", unit)
		require.GreaterOrEqual(t, len(f.admitted), 3*quota-instances, "a %s", unit) // no window of UTC is the longest
	}
}

// worst returns a window of the calendar of the greatest length that UTC has, which begins within a day before such a window ends.
func worst(from time.Time, unit string, window time.Duration) (begins, ends time.Time) {
	from = from.UTC().Truncate(24 * time.Hour)
	for day := 0; ; day++ {
		begins = from.AddDate(0, 0, day)
		ends = map[string]time.Time{"day": begins.AddDate(0, 0, 1), "week": begins.AddDate(0, 0, 7), "month": begins.AddDate(0, 1, 0)}[unit]
		first := unit == "day" || unit == "week" && begins.Weekday() == time.Monday || unit == "month" && begins.Day() == 1 && ends.Sub(begins) == 31*24*time.Hour
		rest := window - time.Duration(begins.UnixNano()%int64(window))
		if first && rest > time.Minute && rest <= min(time.Hour*24, ends.Sub(begins)-window) {
			return begins, ends
		}
	}
}
