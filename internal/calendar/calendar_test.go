// SPDX-License-Identifier: Apache-2.0

package calendar_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/calendar"
	"github.com/tallystick/tallystick/proof/kit"
)

// odd are zones with rules that are easily got wrong.
var odd = []string{
	"UTC", "Europe/Berlin", "America/New_York",
	"Pacific/Apia", "Pacific/Kwajalein", // have skipped a day
	"America/Sao_Paulo", "Africa/Cairo", // midnight does not exist on one day
	"America/St_Johns",                    // clocks went back from 00:01 to 23:01
	"Australia/Lord_Howe",                 // by half an hour
	"Africa/Casablanca",                   // by the moon
	"Africa/Monrovia", "Antarctica/Casey", // by 44 minutes and 30 seconds; by three hours, forth and back
}

// zones are the odd ones, and then all others of this system.
func zones() (names []string) {
	names = odd
	if !kit.Whole() {
		return names
	}
	const root = "/usr/share/zoneinfo"
	_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		if err == nil && !d.IsDir() && name[0] >= 'A' && name[0] <= 'Z' && strings.Contains(name, "/") {
			if _, err := time.LoadLocation(name); err == nil {
				names = append(names, name)
			}
		}
		return nil
	})
	return names
}

// number tells in which window a date is, by the date alone.
func number(unit string, local time.Time) int {
	switch unit {
	case "month":
		return local.Year()*12 + int(local.Month())
	case "week":
		year, week := local.ISOWeek()
		return year*100 + week
	}
	return local.Year()*1000 + local.YearDay()
}

// Every window from 1970 to 2100 follows the one before without a gap, has the length that such a window can have, and
// divides time where the date changes for good. That is asked at its first and its last moment, around each
// change of the zone, and at random.
func TestWindowsDivideTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n, zone := range zones() {
		from, until := 1970, 2101
		if n >= len(odd) {
			from, until = 2005, 2030
		}
		for unit, lengths := range map[string][2]time.Duration{
			"day": {23 * time.Hour, 25 * time.Hour}, "week": {167 * time.Hour, 169 * time.Hour},
			"month": {28*24*time.Hour - time.Hour, 31*24*time.Hour + time.Hour},
		} {
			if n > 2 { // it may have skipped a day, or been set by more than an hour
				lengths[0], lengths[1] = lengths[0]-2*time.Hour, lengths[1]+2*time.Hour
				if unit != "day" {
					lengths[0] -= 24 * time.Hour
				}
			}
			if n >= len(odd) { // stations in the ice have moved by seven hours
				lengths[0], lengths[1] = lengths[0]-6*time.Hour, lengths[1]+6*time.Hour
				if unit != "day" {
					continue
				}
			}
			c := kit.Must(calendar.Load(unit, zone))(t)
			in := kit.Must(time.LoadLocation(zone))(t)
			short, long, last := time.Duration(1<<62), time.Duration(0), -1
			check := func(at, start, end time.Time) {
				s, e := c.Around(at)
				require.True(t, s.Equal(start) && e.Equal(end), "%s, a %s, at %s: from %s to %s, want %s to %s", zone, unit, at.UTC(), s, e, start, end)
			}
			for at := time.Date(from, 1, 3, 0, 0, 0, 0, time.UTC); at.Year() < until; {
				start, end := c.Around(at)
				require.False(t, at.Before(start))
				require.True(t, at.Before(end))
				is := number(unit, end.Add(-time.Second).In(in))
				require.Greater(t, number(unit, end.In(in)), is, "%s, a %s: %s is no end", zone, unit, end)
				require.Greater(t, is, last, "%s, a %s: the window to %s", zone, unit, end)
				last = is
				check(start, start, end)
				check(end.Add(-1), start, end)
				next, _ := c.Around(end)
				require.True(t, next.Equal(end), "%s, a %s: %s ends, and the next begins %s", zone, unit, end, next)
				check(start.Add(time.Duration(rng.Int64N(int64(end.Sub(start))))), start, end)
				if _, change := start.In(in).ZoneBounds(); change.After(start) && change.Before(end) { // in the last day of a leap year it is before
					check(change, start, end)
					check(change.Add(-1), start, end)
				}
				// From here on no clock shows a date before: not either where it is set next.
				if _, change := end.In(in).ZoneBounds(); change.After(end) {
					require.Greater(t, number(unit, change.In(in)), is, "%s, a %s: after its end %s", zone, unit, end)
				}
				short, long = min(short, end.Sub(start)), max(long, end.Sub(start))
				at = end
			}
			require.GreaterOrEqual(t, short, lengths[0], "%s, a %s", zone, unit)
			require.LessOrEqual(t, long, lengths[1], "%s, a %s", zone, unit)
		}
	}
}

// Dates that calendars, laws and clocks make odd.
func TestOddWindows(t *testing.T) {
	for _, of := range []struct{ unit, zone, at, start, end string }{
		{"month", "", "2026-01-30T12:00:00Z", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"month", "UTC", "2028-02-29T23:59:59Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"}, // a leap day
		{"month", "UTC", "2100-02-28T23:59:59Z", "2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z"}, // and none
		{"month", "Europe/Berlin", "2026-03-31T21:59:59Z", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"},
		{"day", "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"}, // 23 hours
		{"day", "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"}, // 25 hours
		{"week", "UTC", "2026-01-04T23:59:59Z", "2025-12-29T00:00:00Z", "2026-01-05T00:00:00Z"},
		{"week", "UTC", "2026-01-05T00:00:00Z", "2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z"},
		{"day", "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"}, // the 29th
		{"day", "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"}, // the 31st
		{"month", "Pacific/Apia", "2011-12-31T00:00:00Z", "2011-12-01T10:00:00Z", "2011-12-31T10:00:00Z"},
		{"day", "America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"}, // begins at 1 o'clock
		{"day", "America/Sao_Paulo", "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z"}, // 23:30 for the second time
		{"day", "Africa/Cairo", "2024-04-25T22:00:00Z", "2024-04-25T22:00:00Z", "2024-04-26T21:00:00Z"},
		{"day", "Asia/Pyongyang", "2018-05-04T15:00:00Z", "2018-05-04T15:00:00Z", "2018-05-05T15:00:00Z"},   // 23:30, and then 00:00
		{"day", "America/St_Johns", "2006-10-29T02:30:30Z", "2006-10-28T02:30:00Z", "2006-10-29T03:30:00Z"}, // 00:00:30, and then 23:01
	} {
		c := kit.Must(calendar.Load(of.unit, of.zone))(t)
		at := kit.Must(time.Parse(time.RFC3339, of.at))(t)
		start, end := c.Around(at)
		require.Equal(t, [2]string{of.start, of.end}, [2]string{start.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339)}, "%+v", of)
	}
}

// What one process tells another holds as long as their clocks differ by less than the next window, and beyond it
// nothing ends too early.
func TestWhatIsToldHolds(t *testing.T) {
	for _, unit := range []string{"day", "week", "month"} {
		c := kit.Must(calendar.Load(unit, "Europe/Berlin"))(t)
		at := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
		tells := c.Tell(at)
		told := kit.Must(calendar.Told(unit, tells))(t)
		require.Equal(t, tells, told.Tell(at), "it is told on")
		start, end := c.Around(at)
		_, next := c.Around(end)
		for _, at := range []time.Time{start.Add(-5 * time.Second), start.Add(-1), start, at, end.Add(-1), end, next.Add(-1)} {
			_, want := c.Around(at)
			from, to := told.Around(at)
			require.True(t, to.Equal(want), "a %s, at %s: ends %s, want %s", unit, at, to, want)
			require.False(t, at.Before(from))
		}
		for _, at := range []time.Time{start.Add(-calendar.Longest(unit)), next, next.Add(40 * 24 * time.Hour)} {
			_, want := c.Around(at)
			from, to := told.Around(at)
			require.False(t, to.Before(want), "a %s, at %s", unit, at)
			require.False(t, at.Before(from) || !at.Before(to))
		}
		for _, wrong := range [][]int64{nil, tells[:2], {1, 1, 2}, {2, 1, 3}, {1, 3, 2}, {-1, 1, 2}, {1, 2, 1<<32 + 1}} {
			_, err := calendar.Told(unit, wrong)
			require.Error(t, err, "%v", wrong)
		}
	}
}

func TestAZoneThatIsNotKnown(t *testing.T) {
	for zone, cure := range map[string]string{"Europe/Atlantis": "time/tzdata", "../etc/passwd": "time/tzdata", "Local": "may differ between processes"} {
		_, err := calendar.Load("day", zone)
		require.ErrorContains(t, err, cure)
	}
	require.Zero(t, calendar.Number("year"))
}

func BenchmarkAround(b *testing.B) {
	c, _ := calendar.Load("month", "Europe/Berlin")
	at := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	for b.Loop() {
		c.Around(at)
	}
}
