// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/calendar"
	"github.com/tallystick/tallystick/internal/span"
)

// Carried returns what tokens and memories carry of the limits of an exact counter, under a policy of this name: a
// sliding window of the same quota stands for a log, which they cannot. For a window of the calendar it is as long as the
// shortest of its kind.
func Carried[L limit[A], A ~uint8](policy string, limits []L) []Limit {
	carried := ownLimits(limits)
	if !validName(policy, 32) {
		policy = "policy" // as in Compile, which complains
	}
	names := withDefaults(policy, carried)
	for i := range carried {
		l := &carried[i]
		if l.Algorithm == SlidingLog || l.Algorithm == RollingDay {
			l.Algorithm = SlidingWindow
		}
		if l.Calendar != "" {
			*l = Limit{Name: names[i].Name, Quota: l.Quota, Window: calendar.Shortest(l.Calendar), Burst: l.Burst, Shadow: l.Shadow}
		}
	}
	return carried
}

// checkLimit reports every problem of l, whose defaults are filled in already, each
// once: a default that follows from a wrong field is not a second mistake.
func checkLimit(field string, l, given Limit) (errs []error) {
	problem := Noting(&errs, field+".")
	if given.Name != "" && !validName(l.Name, 48) {
		problem("Name", "must be 1 to 48 of a-z, 0-9 and -")
	}
	switch {
	case l.Algorithm == SlidingLog || l.Algorithm == RollingDay:
		problem("Algorithm", "a %s needs an exact counter; SlidingWindow is what comes closest without one", l.Algorithm)
	case l.Algorithm > RollingDay:
		problem("Algorithm", "must be SlidingWindow, FixedWindow, TokenBucket or LeakyBucket, not %s", l.Algorithm)
	}
	quotaOK := l.Quota >= 1 && l.Quota <= MaxQuota
	if !quotaOK {
		problem("Quota", "must be from 1 to %d, not %d", MaxQuota, l.Quota)
	}
	switch {
	case l.Calendar != "":
		closest := ""
		if calendar.Number(l.Calendar) != 0 {
			closest = fmt.Sprintf("; a SlidingWindow of %s is what comes closest without one", span.Text(calendar.Shortest(l.Calendar)))
		}
		problem("Calendar", "needs an exact counter%s", closest)
	case l.Zone != "":
		problem("Zone", "belongs to a Calendar; leave it empty without one")
	}
	windowOK := validWindow(l.Window)
	if !windowOK && l.Calendar == "" {
		hint := ""
		if l.Window > 0 && l.Window < time.Microsecond {
			hint = "; a bare number counts nanoseconds"
		}
		problem("Window", "must be whole seconds, from 1 s to %s, not %s%s", span.Text(MaxWindow), span.Text(l.Window), hint)
	}
	switch {
	case l.Algorithm == TokenBucket && given.Burst == 0:
		// The quota.
	case l.Algorithm == TokenBucket && (l.Burst < 1 || l.Burst > MaxQuota):
		problem("Burst", "must be from 1 to %d, or 0 for the quota, not %d", MaxQuota, l.Burst)
	case l.Algorithm == TokenBucket && quotaOK && windowOK && l.Burst > mostBurst(l):
		problem("Burst", "a bucket of %d would take longer than %s to empty; use at most %d",
			l.Burst, span.Text(MaxWindow), mostBurst(l))
	case l.Algorithm == LeakyBucket && l.Burst != 1:
		problem("Burst", "is always 1 for a LeakyBucket; use TokenBucket for a larger one")
	case !gcra(l.Algorithm) && l.Burst != 0:
		problem("Burst", "belongs to a TokenBucket; leave it 0 without one")
	}
	return errs
}

func validWindow(w time.Duration) bool {
	return w >= time.Second && w <= MaxWindow && w%time.Second == 0
}

// Names returns the names of limits of a policy, also where [Compile] refuses them. It is "" where a default follows from a
// mistake, so that the mistake is told alone.
func Names[L limit[A], A ~uint8](policy string, limits []L) []string {
	given := ownLimits(limits)
	names := make([]string, len(given))
	for i, l := range withDefaults(policy, given) {
		if given[i].Name != "" || validName(policy, 32) && (l.Name == policy || l.Calendar != "" || validWindow(l.Window)) {
			names[i] = l.Name
		}
	}
	return names
}

// ValidName reports whether s may name a limit, or a unit in which some count.
func ValidName(s string) bool { return validName(s, 48) }

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
			l.Name = policy + "-" + windowName(l)
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

// windowName spells a window in its largest whole unit: 90s, 5m, 24h, month.
func windowName(l *Limit) string {
	switch w := l.Window; {
	case l.Calendar != "":
		return l.Calendar
	case w > 0 && w%time.Hour == 0:
		return fmt.Sprintf("%dh", w/time.Hour)
	case w > 0 && w%time.Minute == 0:
		return fmt.Sprintf("%dm", w/time.Minute)
	}
	return fmt.Sprintf("%ds", l.Window/time.Second)
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

// gcra reports whether the state of a is one time mark rather than two counts.
func gcra(a Algorithm) bool {
	return a == TokenBucket || a == LeakyBucket
}
