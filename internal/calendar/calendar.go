// SPDX-License-Identifier: Apache-2.0

// Package calendar says when a day, a week or a month of the calendar begins and ends, in a time zone.
// It is pure: the time is an argument.
package calendar

import (
	"errors"
	"fmt"
	"time"
)

// A unit is a window of the calendar. Its lengths hold where clocks go forward or back by an hour.
type unit struct {
	name              string
	shortest, longest time.Duration
}

var units = [...]unit{
	{"day", 23 * time.Hour, 25 * time.Hour},
	{"week", 167 * time.Hour, 169 * time.Hour}, // from Monday on, as in ISO 8601
	{"month", 28 * 24 * time.Hour, 31*24*time.Hour + time.Hour},
}

// Number returns a number from 1 on for "day", "week" and "month", and 0 for another word.
func Number(name string) int {
	for i := range units {
		if units[i].name == name {
			return i + 1
		}
	}
	return 0
}

// Shortest returns the length of the shortest such unit, or of a day if there is none of this name.
func Shortest(name string) time.Duration { return units[max(0, Number(name)-1)].shortest }

// Longest returns the length of the longest such unit.
func Longest(name string) time.Duration { return units[Number(name)-1].longest }

// A Calendar divides time into windows. It is immutable.
type Calendar struct {
	unit
	zone *time.Location
	told []int64 // Unix seconds at which one window ends and the next begins; in place of a zone
}

// Load returns the calendar of a unit in a zone of the IANA database, such as "Europe/Berlin". "" is UTC.
func Load(name, zone string) (*Calendar, error) {
	in, err := Zone(zone)
	if err != nil {
		return nil, err
	}
	return In(name, in), nil
}

// Zone returns the zone of a name.
func Zone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New(`must be the name of a zone, such as "Europe/Berlin": Local may differ between processes`)
	}
	in, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf(`%q is not known here (%w); correct the name or, if this system has no time zones, import _ "time/tzdata"`, name, err)
	}
	return in, nil
}

// In is Load for a zone that is loaded.
func In(name string, zone *time.Location) *Calendar {
	return &Calendar{unit: units[Number(name)-1], zone: zone}
}

// Told returns the calendar that another process tells by [Calendar.Tell].
func Told(name string, ends []int64) (*Calendar, error) {
	c := &Calendar{unit: units[Number(name)-1], told: ends}
	if len(ends) != 3 || ends[0] < 0 || ends[0] >= ends[1] || ends[1] >= ends[2] || ends[2] > 1<<32 {
		return nil, errors.New("calendar: three moments, one after the other, tell a window and the next")
	}
	return c, nil
}

// Tell returns when the window of a moment begins, when it ends and when the next one ends, in Unix seconds: as much as
// another process needs, whose clock is near to the moment.
func (c *Calendar) Tell(at time.Time) []int64 {
	if c.told != nil {
		return c.told
	}
	start, end := c.Around(at)
	_, next := c.Around(end)
	return []int64{start.Unix(), end.Unix(), next.Unix()}
}

// Around returns the window of a moment: start <= at < end, both in whole seconds. Windows follow one another
// without a gap. One ends with the last moment at which clocks show a date that is in it or before it: where clocks
// are set back across midnight, the hour that is repeated belongs to the old window.
//
// What was told ends nowhere: beyond it, and before it, a window is the longest that it can be. So nothing is
// forgotten too early.
func (c *Calendar) Around(at time.Time) (start, end time.Time) {
	if c.told != nil {
		return c.within(at)
	}
	year, month, day := at.In(c.zone).Date()
	// begin returns when the n-th window begins after the one with the date.
	begin := func(n int) time.Time {
		switch c.name {
		case "month":
			return c.begins(year, month+time.Month(n), 1)
		case "week":
			sinceMonday := (time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Weekday() + 6) % 7
			return c.begins(year, month, day-int(sinceMonday)+7*n)
		}
		return c.begins(year, month, day+n)
	}
	start, end = begin(0), begin(1)
	for n := -1; at.Before(start); n-- { // in an hour that comes again the date is one too far
		start, end = begin(n), start
	}
	return start, end
}

// begins returns the first moment from which on clocks never show a date before this one. It looks back from a moment at
// which they are beyond it in every zone, through the times before each change of the zone. [time.Date] says nothing
// certain of a midnight that does not exist, or that comes twice.
func (c *Calendar) begins(year int, month time.Month, day int) time.Time {
	midnight := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	for at := midnight.Add(48 * time.Hour); ; {
		local := at.In(c.zone)
		_, offset := local.Zone()
		begins := midnight.Add(-time.Duration(offset) * time.Second)
		change, _ := local.ZoneBounds()
		if change.IsZero() || begins.After(change) {
			return begins
		}
		at = change.Add(-time.Second)
		_, offset = at.In(c.zone).Zone()
		if before := change.Add(time.Duration(offset) * time.Second); !before.After(midnight) {
			return change.UTC() // it skips midnight, or falls on it
		}
	}
}

// within is Around for what was told.
func (c *Calendar) within(at time.Time) (start, end time.Time) {
	second := at.Unix()
	start = time.Unix(min(second, c.told[0]-int64(c.longest/time.Second)), 0)
	for _, t := range c.told {
		if second < t {
			return start, time.Unix(t, 0)
		}
		start = time.Unix(t, 0)
	}
	return start, time.Unix(second, 0).Add(c.longest)
}
