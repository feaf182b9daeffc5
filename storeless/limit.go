// SPDX-License-Identifier: Apache-2.0

package storeless

import (
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
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
	// (package middleware/exact), and no policy without one takes it.
	SlidingLog

	// RollingDay remembers how much was charged in each minute of the last 24
	// hours: at most Quota in any 24 hours, and what a minute holds counts until
	// its end is a day old. For exact counters alone, like [SlidingLog].
	RollingDay
)

// String returns the name of the algorithm, as used in errors and docs.
func (a Algorithm) String() string { return limiter.Algorithm(a).String() }

// Bounds of a [Limit] and of a policy.
const (
	// MaxLimits, 8, is how many limits one policy may have, so that a [Verdict] is an array and
	// allocates nothing.
	MaxLimits = limiter.MaxLimits

	// MaxQuota is the largest Quota and the largest Burst, 2³¹−1: every count
	// fits 32 bits in each carrier, whatever its language.
	MaxQuota = limiter.MaxQuota

	// MaxWindow is the longest Window, and the longest time in which a bucket
	// may empty (Burst·Window/Quota).
	MaxWindow = limiter.MaxWindow
)

// A Limit is a quota per window. It is plain data, which [New] checks.
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
	// second to [MaxWindow]; none with a Calendar.
	Window time.Duration

	// Calendar counts in days, weeks or months of the calendar, in place of a Window: a fixed window that is as long as
	// they are. For exact counters alone. Permitted: "day", "week" (from Monday on), "month", or "" for a Window; with an
	// Algorithm of [FixedWindow], or none, and no Window and no Burst.
	Calendar string

	// Zone is where midnight is, for a Calendar: the name of a time zone, such as "Europe/Berlin". Its rules come
	// from the system that the program runs on, or from import _ "time/tzdata". Default: UTC.
	Zone string

	// Burst is how much may pass at once through a full bucket. [TokenBucket]
	// only, where it defaults to Quota. Permitted: 1 to [MaxQuota], and
	// Burst·Window/Quota at most [MaxWindow].
	Burst int64

	// Shadow evaluates the limit without refusing: use it to try a number beside the limits that are in force.
	// It is decided and charged as if it were in force: a request that it would refuse is
	// not counted in it, and is Blocked in the verdict; one that a limit in force refuses is
	// counted nowhere. So it promises nothing. Its counts lie in memory and tokens like all
	// others, and stay when it comes into force.
	Shadow bool
}
