// SPDX-License-Identifier: Apache-2.0

package exact

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// MaxLog is the largest Quota of a [storeless.SlidingLog], which keeps an entry for
// each charge: more of them would let one key choose what a call costs.
const MaxLog = 10_000

// day is the Window of every [storeless.RollingDay], and minute its grain.
const (
	day    = 24 * time.Hour
	minute = time.Minute
)

// A Policy is a named set of limits, compiled for exact counters. It is immutable
// and safe for concurrent use.
type Policy struct {
	name   string
	limits []storeless.Limit // defaults filled in
	ids    [storeless.MaxLimits]uint32

	tokens *limiter.Policy

	// What counts in accounts. Of a policy with logs: the other limits, if any,
	// and where they are in it.
	steps  *limiter.Policy
	place  []int
	hasLog bool

	// Of buckets: the time in which one unit of cost leaks out, and a full one empties,
	// in µs; 0 of others.
	interval, empties [storeless.MaxLimits]int64

	bucketsOnly bool // a call can be booked

	hold int64 // see [Account], in ns
}

// maxDebt is how much a bucket may owe at the most, in µs, and by how much its mark may be
// ahead: as much as the largest that can be configured.
const maxDebt = int64(storeless.MaxWindow / time.Microsecond)

// unixMicro is the clock of buckets, which like that of internal/limiter does not go before 1970.
func unixMicro(at time.Time) int64 { return max(0, at.UnixMicro()) }

// Compile checks limits and compiles them. It reports all problems at once, each a
// [storeless.ConfigError] whose Field starts at "Policy" or "Limits". Permitted: a name of 1 to 32
// of a-z, 0-9 and "-"; 1 to [storeless.MaxLimits] limits; also [storeless.SlidingLog], of a Quota up to [MaxLog], and
// [storeless.RollingDay], of a Window of 24 h. Not permitted: Shadow, because a counter charges all limits
// or none.
func Compile(name string, limits []storeless.Limit) (*Policy, error) {
	carried := limiter.Carried(limits)
	var errs []error
	for i := range carried {
		l := &carried[i]
		if l.Shadow {
			errs = append(errs, &storeless.ConfigError{Field: fmt.Sprintf("Limits[%d].Shadow", i), Problem: "cannot go with an exact counter, which charges all limits or none"})
			l.Shadow = false // complained of once
		}
		field, algorithm := fmt.Sprintf("Limits[%d].", i), limits[i].Algorithm
		if algorithm == storeless.RollingDay && l.Window != day {
			errs = append(errs, &storeless.ConfigError{Field: field + "Window", Problem: fmt.Sprintf("of a rolling-day must be 24h, not %s", l.Window)})
			l.Window = day // complained of once
		}
		if algorithm == storeless.SlidingLog && l.Quota > MaxLog {
			errs = append(errs, &storeless.ConfigError{Field: field + "Quota", Problem: fmt.Sprintf("of a sliding-log must be at most %d, not %d; RollingDay and SlidingWindow have no such bound", MaxLog, l.Quota)})
			l.Quota = MaxLog
		}
	}
	tokens, err := limiter.Compile(name, carried)
	if err = errors.Join(err, errors.Join(errs...)); err != nil {
		return nil, limiter.ProblemsAs[storeless.ConfigError](err)
	}
	full := make([]storeless.Limit, len(limits))
	for i := range limits {
		full[i] = limiter.LimitAs[storeless.Limit](tokens.Limit(i))
		full[i].Algorithm = limits[i].Algorithm
	}
	return compile(full, tokens), nil
}

// compile assumes checked limits, and the same for tokens.
func compile(limits []storeless.Limit, tokens *limiter.Policy) *Policy {
	p := &Policy{name: tokens.Name(), limits: limits, tokens: tokens, bucketsOnly: true}
	var steps []storeless.Limit
	for i, l := range limits {
		p.bucketsOnly = p.bucketsOnly && l.Burst > 0
		p.hold = max(p.hold, int64(l.Window))
		if l.Burst > 0 {
			p.interval[i] = (l.Window.Microseconds() + l.Quota - 1) / l.Quota // as in internal/limiter
			p.empties[i] = l.Burst * p.interval[i]
			p.hold = max(p.hold, p.empties[i]*int64(time.Microsecond))
		}
		p.ids[i] = tokens.ID(i)
		if logged(l.Algorithm) {
			// Not the count of the sliding window that stands for it in tokens.
			p.ids[i] |= uint32(l.Algorithm) << 24
			p.hasLog = true
			continue
		}
		steps, p.place = append(steps, l), append(p.place, i)
	}
	if len(steps) > 0 {
		p.steps = mustCompile(p.name, buckets(steps))
		p.steps = p.steps.Among(mustCompile(p.name, deepest(steps)))
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

// deepest returns limits with buckets that can be owed the most there is, maxDebt. A key's
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

// logged reports whether a limit keeps what was charged, and when, rather than a
// state of fixed size.
func logged(a storeless.Algorithm) bool {
	return a == storeless.SlidingLog || a == storeless.RollingDay
}

// AccountName names what is charged for a key under policies of this name: [NameLength] bytes of
// a hash, by which every counter keeps its account, so that it can be moved to another
// ([Archive]). Engines are read by other people than the program is.
func (p *Policy) AccountName(key string) string {
	b := make([]byte, 0, 128)
	sum := sha256.Sum256(append(append(append(b, p.name...), 0), key...))
	return string(sum[:NameLength])
}

// NameLength is how many bytes a [Policy.AccountName] has.
const NameLength = 16

// Name returns the policy's name.
func (p *Policy) Name() string { return p.name }

// Len returns the number of limits, from 1 to [storeless.MaxLimits].
func (p *Policy) Len() int { return len(p.limits) }

// Limit returns the i-th limit, with its defaults filled in.
func (p *Policy) Limit(i int) storeless.Limit { return p.limits[i] }

// ID returns the number by which counters know the i-th limit: a hash of its
// algorithm, window and name. A quota that changes keeps what was counted.
func (p *Policy) ID(i int) uint32 { return p.ids[i] }

// SameShape reports whether p and q have the same limits in the same order,
// differing at most in quota and burst: an account of one is then an account of the other.
func (p *Policy) SameShape(q *Policy) bool {
	return p.tokens.SameShape(q.tokens) && p.ids == q.ids
}

// Share returns the policy of one of n who share what p admits: quotas and bursts are divided and
// rounded down, and are at least 1. It panics if n is below 1.
func (p *Policy) Share(n int64) *Policy {
	tokens := p.tokens.Share(n)
	limits := slices.Clone(p.limits)
	for i := range limits {
		limits[i].Quota, limits[i].Burst = tokens.Limit(i).Quota, tokens.Limit(i).Burst
	}
	return compile(limits, tokens)
}
