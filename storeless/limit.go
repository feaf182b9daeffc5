// SPDX-License-Identifier: Apache-2.0

package storeless

import (
	"fmt"
	"slices"
	"time"
)

// Algorithm names the arithmetic of a [Limit].
type Algorithm uint8

const (
	// SlidingWindow is the sliding-window counter: two aligned windows, the
	// previous one weighted by how much of it still lies within the last
	// Window. It admits at most Quota in any short burst and in any aligned
	// window; up to 2·Quota−1 over the worst Window-long span. The default.
	SlidingWindow Algorithm = iota

	// FixedWindow counts in aligned windows and forgets at each boundary. Up
	// to 2·Quota requests may pass around a boundary. It is the cheapest, and
	// the right choice where the quota is a calendar budget.
	FixedWindow

	// TokenBucket is GCRA with a burst: requests flow at Quota per Window, and
	// up to Burst may arrive at once. Burst + Quota may pass in one Window.
	TokenBucket

	// LeakyBucket is GCRA with a burst of one, a meter: requests must keep a
	// distance of Window/Quota from each other.
	LeakyBucket

	// SlidingLog remembers every charge until it is a Window old: at most Quota
	// in any span of a Window. A token cannot carry it: it is for exact counters
	// (package middleware/exact), and [Compile] refuses it.
	SlidingLog

	// RollingDay remembers how much was charged in each minute of the last 24
	// hours: at most Quota in any 24 hours, and what a minute holds counts until
	// its end is a day old. For exact counters alone, like [SlidingLog].
	RollingDay
)

// String returns the name of the algorithm, as used in errors and docs.
func (a Algorithm) String() string {
	switch a {
	case SlidingWindow:
		return "sliding-window"
	case FixedWindow:
		return "fixed-window"
	case TokenBucket:
		return "token-bucket"
	case LeakyBucket:
		return "leaky-bucket"
	case SlidingLog:
		return "sliding-log"
	case RollingDay:
		return "rolling-day"
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

// gcra reports whether the state of a is one time mark rather than two counts.
func (a Algorithm) gcra() bool { return a == TokenBucket || a == LeakyBucket }

// Bounds of a [Limit] and of a [Policy].
const (
	// MaxLimits is how many limits one policy may have. It is what lets a
	// [Tally] be an array: no tally ever allocates.
	MaxLimits = 8

	// MaxQuota is the largest Quota and the largest Burst, 2³¹−1: every count
	// fits 32 bits in each carrier, whatever its language.
	MaxQuota = 1<<31 - 1

	// MaxWindow is the longest Window, and the longest time in which a bucket
	// may empty (Burst·Window/Quota).
	MaxWindow = 366 * 24 * time.Hour
)

// A Limit is a quota per window. It is plain data; [Compile] checks it.
type Limit struct {
	// Name appears in the RateLimit fields and in problem details, and is part
	// of what identifies the limit's count across configurations: a renamed
	// limit starts from zero. Permitted: 1 to 48 of a-z, 0-9 and "-", unique
	// within the policy. Default: the policy's name for the first unnamed
	// limit, then policy-window, as in "contact-24h".
	Name string

	// Algorithm defaults to [SlidingWindow].
	Algorithm Algorithm

	// Quota is how much cost may pass in a Window. Permitted: 1 to [MaxQuota].
	Quota int64

	// Window is aligned to the Unix epoch. Permitted: whole seconds, from one
	// second to [MaxWindow].
	Window time.Duration

	// Burst is how much may pass at once through a full bucket. [TokenBucket]
	// only, where it defaults to Quota. Permitted: 1 to [MaxQuota], and
	// Burst·Window/Quota at most [MaxWindow].
	Burst int64

	// Shadow has the limit refuse nobody: to try a number beside those that are in force.
	// It is decided and charged as if it were in force: a request that it would refuse is
	// not counted in it, and is Blocked in the verdict; one that a limit in force refuses is
	// counted nowhere. So it promises nothing. Its counts lie in memory and tokens like all
	// others, and stay when it comes into force.
	Shadow bool
}

// check reports every problem of l, whose defaults are filled in already, each
// once: a default that follows from a wrong field is not a second mistake.
func (l *Limit) check(field string, given Limit) (errs []error) {
	problem := func(name, format string, args ...any) {
		errs = append(errs, &ConfigError{field + "." + name, fmt.Sprintf(format, args...)})
	}
	if given.Name != "" && !validName(l.Name, 48) {
		problem("Name", "must be 1 to 48 of a-z, 0-9 and -")
	}
	switch {
	case l.Algorithm == SlidingLog || l.Algorithm == RollingDay:
		problem("Algorithm", "a %s needs an exact counter; SlidingWindow is what comes closest without one", l.Algorithm)
	case l.Algorithm > RollingDay:
		problem("Algorithm", "must be SlidingWindow, FixedWindow, TokenBucket or LeakyBucket")
	}
	quotaOK := l.Quota >= 1 && l.Quota <= MaxQuota
	if !quotaOK {
		problem("Quota", "must be from 1 to %d, not %d", MaxQuota, l.Quota)
	}
	windowOK := l.Window >= time.Second && l.Window <= MaxWindow && l.Window%time.Second == 0
	if !windowOK {
		hint := ""
		if l.Window > 0 && l.Window < time.Microsecond {
			hint = "; a bare number counts nanoseconds"
		}
		problem("Window", "must be whole seconds, from 1s to %s, not %s%s", MaxWindow, l.Window, hint)
	}
	switch {
	case l.Algorithm == TokenBucket && given.Burst == 0:
		// The quota.
	case l.Algorithm == TokenBucket && (l.Burst < 1 || l.Burst > MaxQuota):
		problem("Burst", "must be from 1 to %d, or 0 for the quota, not %d", MaxQuota, l.Burst)
	case l.Algorithm == TokenBucket && quotaOK && windowOK && l.Burst > mostBurst(*l):
		problem("Burst", "a bucket of %d would take longer than %s to empty; use at most %d",
			l.Burst, MaxWindow, mostBurst(*l))
	case l.Algorithm == LeakyBucket && l.Burst != 1:
		problem("Burst", "is always 1 for a LeakyBucket; use TokenBucket for a larger one")
	case !l.Algorithm.gcra() && l.Burst != 0:
		problem("Burst", "belongs to a TokenBucket; leave it 0 for a %s", l.Algorithm)
	}
	return errs
}

// validName reports whether s is 1 to most of a-z, 0-9 and "-". The alphabet is
// safe in a cookie name, a structured-field string, a URL and a log line.
func validName(s string, most int) bool {
	if len(s) == 0 || len(s) > most {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// withDefaults returns a copy of limits with names and bursts filled in.
func withDefaults(policy string, limits []Limit) []Limit {
	limits = slices.Clone(limits)
	plain := !slices.ContainsFunc(limits, func(l Limit) bool { return l.Name == policy })
	for i := range limits {
		l := &limits[i]
		if l.Name == "" && plain {
			l.Name, plain = policy, false
		} else if l.Name == "" {
			l.Name = policy + "-" + windowName(l.Window)
		}
		switch {
		case l.Algorithm == TokenBucket && l.Burst == 0:
			l.Burst = l.Quota
		case l.Algorithm == LeakyBucket && l.Burst == 0:
			l.Burst = 1
		}
	}
	return limits
}

// windowName spells a window in its largest whole unit: 90s, 5m, 24h.
func windowName(w time.Duration) string {
	switch {
	case w > 0 && w%time.Hour == 0:
		return fmt.Sprintf("%dh", w/time.Hour)
	case w > 0 && w%time.Minute == 0:
		return fmt.Sprintf("%dm", w/time.Minute)
	}
	return fmt.Sprintf("%ds", w/time.Second)
}

// mostBurst returns the largest burst whose bucket empties within [MaxWindow].
// In whole seconds, because there the product stays below 2⁵⁶ and nothing is
// rounded: a quota that does not divide its window must not cost it a burst.
func mostBurst(l Limit) int64 {
	return min(MaxQuota, int64(MaxWindow/time.Second)*l.Quota/int64(l.Window/time.Second))
}

// emissionInterval is GCRA's T (ITU-T I.371): the time one unit of cost takes
// to leak. It rounds up, so that rounding never admits more than the quota.
func emissionInterval(l Limit) int64 {
	return (l.Window.Microseconds() + l.Quota - 1) / l.Quota
}
