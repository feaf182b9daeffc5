// SPDX-License-Identifier: Apache-2.0

// Package plan compiles a policy, once, for the arithmetic of exact counters. Package
// exact makes plans, and package engine counts by them.
package plan

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/calendar"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// Day is the Window of every [storeless.RollingDay].
const Day = 24 * time.Hour

// A Plan is a policy, compiled for exact counters. It is immutable.
type Plan struct {
	Limits []storeless.Limit // defaults filled in
	IDs    [storeless.MaxLimits]uint32
	Tokens *limiter.Policy

	// What counts in accounts. Of a policy with logs: the other limits, if any,
	// and where they are in it.
	Steps  *limiter.Policy
	Place  []int
	HasLog bool

	// Of windows of the calendar; nil of others.
	Calendars   [storeless.MaxLimits]*calendar.Calendar
	HasCalendar bool

	// Of buckets: the time in which one unit of cost leaks out, and a full one empties,
	// in µs; 0 of others.
	Interval, Empties [storeless.MaxLimits]int64

	BucketsOnly bool // a call can be booked

	Hold int64 // for how long an account stands still behind a clock, in ns
}

// MaxDebt is how much a bucket may owe at most, in µs, and by how much its mark may be ahead: as
// much as the largest that can be configured.
const MaxDebt = int64(storeless.MaxWindow / time.Microsecond)

// New assumes checked limits, and the same for tokens.
func New(limits []storeless.Limit, tokens *limiter.Policy, calendars [storeless.MaxLimits]*calendar.Calendar) *Plan {
	p := &Plan{Limits: limits, Tokens: tokens, Calendars: calendars, BucketsOnly: true}
	var steps []storeless.Limit
	for i, l := range limits {
		p.BucketsOnly = p.BucketsOnly && l.Burst > 0
		p.Hold = max(p.Hold, int64(l.Window))
		if l.Burst > 0 {
			p.Interval[i] = (l.Window.Microseconds() + l.Quota - 1) / l.Quota // as in internal/limiter
			p.Empties[i] = l.Burst * p.Interval[i]
			p.Hold = max(p.Hold, p.Empties[i]*int64(time.Microsecond))
		}
		p.IDs[i] = tokens.ID(i)
		if p.Logged(i) {
			// Not the count of the sliding window that stands for it in tokens.
			p.IDs[i] |= uint32(l.Algorithm) << 24
			p.HasLog = true
			if calendars[i] != nil {
				p.IDs[i] = tokens.ID(i) | uint32(calendar.Number(l.Calendar))<<calendarBits
				p.Hold, p.HasCalendar = max(p.Hold, int64(calendar.Longest(l.Calendar))), true
			}
			continue
		}
		steps, p.Place = append(steps, l), append(p.Place, i)
	}
	if len(steps) > 0 {
		p.Steps = mustCompile(tokens.Name(), buckets(steps))
		p.Steps = p.Steps.WithTiers(mustCompile(tokens.Name(), deepest(steps)))
	}
	return p
}

// mustCompile compiles what follows from limits that were compiled before.
func mustCompile(name string, limits []storeless.Limit) *limiter.Policy {
	p, err := limiter.Compile(name, limits)
	if err != nil {
		panic(err)
	}
	return p
}

// deepest returns limits with buckets that can be owed the most there is, MaxDebt. A key's
// account is charged under any tier, beyond the limit (Call.Past) and ahead (Call.Ahead), and
// its time does not step back: however large a debt is, it is no fault of a clock.
func deepest(limits []storeless.Limit) []storeless.Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		if l := &limits[i]; l.Burst > 0 {
			// One unit a second. A meter, which has no burst, is a bucket here.
			l.Algorithm, l.Quota, l.Burst = storeless.TokenBucket, int64(l.Window/time.Second), int64(storeless.MaxWindow/time.Second)
		}
	}
	return limits
}

// buckets returns limits with a bucket of one for each meter: the same arithmetic.
func buckets(limits []storeless.Limit) []storeless.Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		if l := &limits[i]; l.Burst > 0 {
			l.Algorithm = storeless.TokenBucket
		}
	}
	return limits
}

// Logged reports whether a limit keeps what was charged, and until when it counts, rather than a state as in a token. A window
// of the calendar is a log of one entry.
func (p *Plan) Logged(i int) bool {
	a := p.Limits[i].Algorithm
	return a == storeless.SlidingLog || a == storeless.RollingDay || p.Calendars[i] != nil
}

// Prices reports whether costs may stand in place of a cost: none, or of limits of the policy alone, with that as the largest.
func (p *Plan) Prices(cost int64, costs *[storeless.MaxLimits]int64) bool {
	most := int64(0)
	for i, c := range costs {
		if c < 0 || c > 0 && i >= len(p.Limits) {
			return false
		}
		most = max(most, c)
	}
	return most == 0 || most == cost
}

// Price returns what a call or a receipt has each limit charged.
func Price(cost int64, costs *[storeless.MaxLimits]int64) limiter.Price {
	if *costs == [storeless.MaxLimits]int64{} {
		return limiter.Price{Cost: cost}
	}
	return limiter.Price{Cost: cost, Each: (*limiter.Costs)(costs)}
}

// calendarBits is where the ID of a limit has the number of its calendar. The bits below it tell the logs apart.
const calendarBits = 28

// IsCalendar reports whether an ID is of a limit with windows of the calendar.
func IsCalendar(id uint32) bool { return id>>calendarBits != 0 }

// NameLength is how many bytes the name of an account has.
const NameLength = 16

// AccountName names what is charged for a key: a hash, because engines are read by other people than the
// program is.
func (p *Plan) AccountName(key string) string {
	b := make([]byte, 0, 128)
	sum := sha256.Sum256(append(append(append(b, p.Tokens.Name()...), 0), key...))
	return string(sum[:NameLength])
}
