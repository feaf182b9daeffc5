// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Policy is a named set of limits, compiled: every check done, every number
// precomputed. It is immutable and safe for concurrent use.
type Policy struct {
	name    string
	rules   []rule
	life    int64 // of its tallies, which are bought, µs; 0: they are not; see Policy.Pass
	shadows bool  // some of its limits are shadows
}

// Compile checks limits and compiles them into a policy. It reports all
// problems at once, each a [Problem] whose Field starts at "Policy" or
// "Limits".
//
// The limits may come from package storeless: here they become the engine's.
//
// Permitted: a name of 1 to 32 of a-z, 0-9 and "-"; 1 to [MaxLimits] limits.
func Compile[L limit[A], A ~uint8](name string, limits []L) (*Policy, error) {
	return compilePolicy(name, ownLimits(limits))
}

func compilePolicy(name string, limits []Limit) (*Policy, error) {
	var errs []error
	if !validName(name, 32) {
		errs = append(errs, &Problem{Field: "Policy", Problem: "must be 1 to 32 of a-z, 0-9 and -"})
		name = "policy" // so that names made of it are not complained of too
	}
	if len(limits) == 0 {
		errs = append(errs, &Problem{Field: "Limits", Problem: "at least one limit is needed"})
	}
	if len(limits) > MaxLimits {
		errs = append(errs, &Problem{Field: "Limits", Problem: fmt.Sprintf("at most %d limits, not %d", MaxLimits, len(limits))})
		limits = limits[:MaxLimits]
	}
	full := withDefaults(name, limits)
	p := &Policy{name: name, rules: make([]rule, 0, len(full))}
	for i := range full {
		l, field := &full[i], fmt.Sprintf("Limits[%d]", i)
		problems := checkLimit(field, *l, limits[i])
		errs = append(errs, problems...)
		named := limits[i].Name != "" || len(problems) == 0
		if named && slices.ContainsFunc(full[:i], func(seen Limit) bool { return seen.Name == l.Name }) {
			errs = append(errs, &Problem{Field: field + ".Name", Problem: fmt.Sprintf("%q is taken by another limit", l.Name)})
			continue
		}
		if len(problems) > 0 {
			continue
		}
		r := compile(*l)
		for j := range p.rules {
			if seen := &p.rules[j]; seen.id == r.id {
				errs = append(errs, &Problem{Field: field + ".Name", Problem: fmt.Sprintf("%q has the same short id as %q; rename one", l.Name, seen.limit.Name)})
			}
		}
		p.rules = append(p.rules, r)
		p.shadows = p.shadows || l.Shadow
	}
	if len(full) > 0 && !slices.ContainsFunc(full, func(l Limit) bool { return !l.Shadow }) {
		errs = append(errs, &Problem{Field: "Limits", Problem: "at least one limit must be in force, and no Shadow"})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return p, nil
}

// Name returns the policy's name.
func (p *Policy) Name() string { return p.name }

// Len returns the number of limits, from 1 to [MaxLimits].
func (p *Policy) Len() int { return len(p.rules) }

// Limit returns the i-th limit, with its defaults filled in.
func (p *Policy) Limit(i int) Limit { return p.rules[i].limit }

// Capacity returns the largest cost that a single request may ever have: the
// smallest quota of the policy, or burst where a limit has one. Shadows do not count.
func (p *Policy) Capacity() int64 {
	least := int64(MaxQuota)
	for i := range p.rules {
		if r := &p.rules[i]; !r.limit.Shadow {
			least = min(least, r.capacity)
		}
	}
	return least
}

// TooDear returns the first limit that can never admit a price, or -1. Shadows do not count.
func (p *Policy) TooDear(price Price) int {
	for i := range p.rules {
		if r := &p.rules[i]; !r.limit.Shadow && price.Of(i) > r.capacity {
			return i
		}
	}
	return -1
}

// Most returns what one memory admits of one tally by the i-th limit within a span that is no longer than the window: the
// quota, in aligned windows, or the burst of a bucket and what leaks meanwhile.
func (p *Policy) Most(i int, span time.Duration) int64 { return p.rules[i].admits(span) }

// Most is [Policy.Most] for a limit of a counter.
func (l Limit) Most(span time.Duration) int64 {
	r := compile(l)
	return r.admits(span)
}

func (r *rule) admits(span time.Duration) int64 {
	if r.interval == 0 {
		return r.capacity
	}
	return r.capacity + span.Microseconds()/r.interval
}

// SameShape reports whether p and q have the same limits in the same order, the same of
// them shadows, differing at most in quota and burst: then a tally of one is a tally of the
// other. The tiers of a policy must have the same shape.
func (p *Policy) SameShape(q *Policy) bool {
	return slices.EqualFunc(p.rules, q.rules, func(a, b rule) bool {
		return a.limit.Algorithm == b.limit.Algorithm && a.limit.Name == b.limit.Name && a.seconds == b.seconds && a.limit.Shadow == b.limit.Shadow
	})
}

// WithTiers returns p as one of several tiers: policies of its shape that decide about
// the same tallies. What a bucket of any of them may be owed is then believed
// under p too. A debt beyond the largest bucket's is taken for a fault of a
// clock and cut down (see Clocks in the package documentation), so that a tier
// that has not been told of a larger one would forgive what that one is owed. What
// a tier has been told itself, it passes on. WithTiers panics if one of tiers has
// another shape.
func (p *Policy) WithTiers(tiers ...*Policy) *Policy {
	with := p.clone()
	for _, tier := range tiers {
		if !p.SameShape(tier) {
			panic("limiter: tiers must have the same limits, but for quota and burst")
		}
		for i := range with.rules {
			r := &with.rules[i]
			r.owe(max(r.owes, tier.rules[i].owes))
		}
	}
	return with
}

func (p *Policy) clone() *Policy {
	return &Policy{name: p.name, rules: slices.Clone(p.rules), life: p.life, shadows: p.shadows}
}

// Scale returns a policy of the same shape that admits factor times as much:
// what a network of many clients may do together. Quotas and bursts stop at
// the bounds of [Limit]. The tiers of p have to be scaled as well: what Scale
// returns knows of none, see [Policy.WithTiers]. It panics if factor is below 1.
func (p *Policy) Scale(factor int64) *Policy {
	if factor < 1 {
		panic(fmt.Sprintf("limiter: no policy of %d times as much", factor))
	}
	factor = min(factor, MaxQuota) // of a quota of at least 1: the products fit
	scaled := p.clone()
	for i := range p.rules {
		l := p.rules[i].limit
		l.Quota = min(l.Quota*factor, MaxQuota)
		if gcra(l.Algorithm) {
			// A meter for one client is a bucket for many of them.
			l.Burst = min(l.Burst*factor, mostBurst(l))
		}
		scaled.rules[i] = compile(l)
		scaled.rules[i].as(&p.rules[i])
	}
	return scaled
}

// Charging returns a policy with the limits of p that charges only some of them: a limit
// is charged if only is true for its place and p charges it. The others are checked, together with what is held
// ([Candidate].Held), and left as they are: it is known later whether they are charged. So two
// of them make one limiter whose requests are charged in part when they are admitted, by
// [Memory.Take] under one, and in part when their outcome is known, by [Memory.Record] under
// the other. The caller keeps Held, and sees that Take and Record do not overtake each
// other: what is no longer held must be charged by then.
func (p *Policy) Charging(only func(i int) bool) *Policy {
	part := p.clone()
	for i := range part.rules {
		part.rules[i].later = part.rules[i].later || !only(i)
	}
	return part
}

// ID returns the number, below 2²⁴, by which tokens and memory know the i-th
// limit: a hash of its algorithm, window and name.
func (p *Policy) ID(i int) uint32 { return p.rules[i].id }

// Has reports whether a limit has an ID: then its counts go on, whatever the rest of the policy is.
func (p *Policy) Has(id uint32) bool {
	for i := range p.rules {
		if p.rules[i].id == id {
			return true
		}
	}
	return false
}

// Owes returns for how long the i-th limit, a bucket, can be owed without an overdraft, in any tier
// that p knows of (see [Policy.WithTiers]) and, of a pass, under any PassTime: how far ahead of the
// clock its mark can be. An overdraft is as much again and a window at most; see "Settled costs" in
// the package documentation. For a window it is 0.
func (p *Policy) Owes(i int) time.Duration { return time.Duration(p.rules[i].owes) * time.Microsecond }

// Share returns a policy of the same shape for one of n clients that share p:
// quotas and bursts are divided and rounded down, and are at least 1, so that n
// shares of a quota below n admit n. Like the result of [Policy.Scale] it has no
// tiers. It panics if n is below 1.
func (p *Policy) Share(n int64) *Policy {
	if n < 1 {
		panic("limiter: no share of fewer than one")
	}
	share := p.clone()
	for i := range p.rules {
		l := p.rules[i].limit
		l.Quota = max(1, l.Quota/n)
		if l.Burst > 0 {
			// A quota that was rounded up empties later; the burst must stay
			// within what a bucket may owe.
			l.Burst = min(max(1, l.Burst/n), mostBurst(l))
		}
		share.rules[i] = compile(l)
		share.rules[i].as(&p.rules[i])
	}
	return share
}
