// SPDX-License-Identifier: Apache-2.0

package exact

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tallystick/tallystick/internal/calendar"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/span"
	"github.com/tallystick/tallystick/middleware/exact/internal/plan"
	"github.com/tallystick/tallystick/storeless"
)

// MaxLog is the largest Quota of a [storeless.SlidingLog], which keeps an entry for
// each charge: more of them would let one key choose what a call costs.
const MaxLog = 10_000

// A Policy is a named set of limits, compiled for exact counters. It is immutable
// and safe for concurrent use.
type Policy struct{ plan *plan.Plan }

// Compile checks limits and compiles them. It reports all problems at once, each a
// [storeless.ConfigError] whose Field starts at "Policy" or "Limits". Permitted: a name of 1 to 32
// of a-z, 0-9 and "-"; 1 to [storeless.MaxLimits] limits; also [storeless.SlidingLog], of a Quota up to [MaxLog],
// [storeless.RollingDay], of a Window of 24 h, and limits with a Calendar, whose Window is then filled in: the shortest that
// it can be. Not permitted: Shadow, because a counter charges all limits
// or none.
func Compile(name string, limits []storeless.Limit) (*Policy, error) {
	carried := limiter.Carried(name, limits)
	var errs []error
	var calendars [storeless.MaxLimits]*calendar.Calendar
	for i := range carried {
		l := &carried[i]
		if limits[i].Calendar != "" {
			c, problems := calendarOf(i, limits[i])
			if errs = append(errs, problems...); i < len(calendars) {
				calendars[i] = c
			}
		}
		if l.Shadow {
			errs = append(errs, &storeless.ConfigError{Field: fmt.Sprintf("Limits[%d].Shadow", i), Problem: "cannot go with an exact counter, which charges all limits or none"})
			l.Shadow = false // complained of once
		}
		field, algorithm := fmt.Sprintf("Limits[%d].", i), limits[i].Algorithm
		if algorithm == storeless.RollingDay && l.Window != plan.Day {
			errs = append(errs, &storeless.ConfigError{Field: field + "Window", Problem: fmt.Sprintf("of a rolling-day must be 24 h, not %s", span.Text(l.Window))})
			l.Window = plan.Day // complained of once
		}
		if algorithm == storeless.SlidingLog && l.Quota > MaxLog {
			errs = append(errs, &storeless.ConfigError{Field: field + "Quota", Problem: fmt.Sprintf("of a sliding-log must be at most %d, not %d; RollingDay and SlidingWindow have no such bound", MaxLog, l.Quota)})
			l.Quota = MaxLog
		}
	}
	tokens, err := limiter.Compile(name, carried)
	if err = errors.Join(append([]error{err}, errs...)...); err != nil {
		return nil, limiter.ProblemsAs[storeless.ConfigError](err)
	}
	full := make([]storeless.Limit, len(limits))
	for i := range limits {
		full[i] = limiter.LimitAs[storeless.Limit](tokens.Limit(i))
		full[i].Algorithm = limits[i].Algorithm
		if calendars[i] != nil {
			full[i].Algorithm, full[i].Calendar, full[i].Zone = storeless.FixedWindow, limits[i].Calendar, limits[i].Zone
		}
	}
	return &Policy{plan.New(full, tokens, calendars)}, nil
}

// calendarOf returns the calendar of the i-th limit, or every problem of it.
func calendarOf(i int, l storeless.Limit) (c *calendar.Calendar, errs []error) {
	problem := limiter.Noting(&errs, fmt.Sprintf("Limits[%d].", i))
	if l.Algorithm != storeless.FixedWindow && l.Algorithm != storeless.SlidingWindow {
		problem("Algorithm", "of a limit with a Calendar is FixedWindow; leave it out, not %s", l.Algorithm)
	}
	known := calendar.Number(l.Calendar) != 0
	if !known {
		problem("Calendar", "must be day, week or month, not %q", l.Calendar)
	}
	if l.Window != 0 && (!known || l.Window != calendar.Shortest(l.Calendar)) {
		problem("Window", "must be 0 with a Calendar, not %s", span.Text(l.Window))
	}
	zone, err := calendar.Zone(l.Zone)
	if err != nil {
		problem("Zone", "%s", err)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return calendar.In(l.Calendar, zone), nil
}

// AccountName names what is charged for a key under policies of this name: 16 bytes of a hash, by
// which every counter keeps its account, so that it can be moved to another. Engines are read by
// other people than the program is.
func (p *Policy) AccountName(key string) string { return p.plan.AccountName(key) }

// Name returns the policy's name.
func (p *Policy) Name() string { return p.plan.Tokens.Name() }

// Len returns the number of limits, from 1 to [storeless.MaxLimits].
func (p *Policy) Len() int { return len(p.plan.Limits) }

// Limit returns the i-th limit, with its defaults filled in.
func (p *Policy) Limit(i int) storeless.Limit { return p.plan.Limits[i] }

// ID returns the number by which counters know the i-th limit: a hash of its
// algorithm, window and name. A quota that changes keeps what was counted, and so does a zone: the window that is
// open then ends when it would have ended later.
func (p *Policy) ID(i int) uint32 { return p.plan.IDs[i] }

// SameShape reports whether p and q have the same limits in the same order,
// differing at most in quota and burst: an account of one is then an account of the other.
func (p *Policy) SameShape(q *Policy) bool {
	sameZone := func(a, b storeless.Limit) bool { return cmp.Or(a.Zone, "UTC") == cmp.Or(b.Zone, "UTC") }
	return p.plan.Tokens.SameShape(q.plan.Tokens) && p.plan.IDs == q.plan.IDs && slices.EqualFunc(p.plan.Limits, q.plan.Limits, sameZone)
}

// Plan returns the policy as package engine counts by it. Its type is internal: a counter of your
// own reads a policy by the other methods.
func (p *Policy) Plan() *plan.Plan { return p.plan }
