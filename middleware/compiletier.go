// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"slices"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/storeless"
)

// limits are compiled limits; exact is nil where no counter decides.
type limits struct {
	tokens *limiter.Policy
	exact  *exact.Policy
}

// sameShape reports whether tallies and accounts of one are those of the other.
func (l limits) sameShape(of limits) bool {
	return l.tokens.SameShape(of.tokens) && (l.exact == nil || l.exact.SameShape(of.exact))
}

// newTier compiles what follows from a set of limits.
func newTier(cfg *Config, name string, l limits) tier {
	p := l.tokens
	t := tier{name: name, policy: p, field: policyField(cfg.Fields, p)}
	for i := range p.Len() {
		name := p.Limit(i).Name
		if p.Limit(i).Shadow { // it is told to nobody
			name = ""
		}
		t.names = append(t.names, name)
	}
	t.divide(cfg)
	if cfg.Exact != nil {
		t.exact, t.shard, t.fallback = l.exact, l.exact.Share(cfg.Shards), p.Share(cfg.Instances)
		t.quotaHash = quotaHash(p)
	}
	return t
}

// widened is newTier for clients that may have networks around them.
func widened(cfg *Config, name string, l limits) tier {
	t := newTier(cfg, name, l)
	t.widen(cfg)
	return t
}

// widen compiles the limits of networks.
func (t *tier) widen(cfg *Config) {
	p := t.policy
	if t.fallback != nil {
		p = t.fallback // networks are counted in memory alone
	}
	t.net56, t.net48 = cfg.partOf(p.Scale(cfg.Net56Factor)), cfg.partOf(p.Scale(cfg.Net48Factor))
}

// roomOf compiles the waiting room of a tier. It is whole on each instance that a balancer spreads requests over:
// where it is full, its draw of who comes next needs the true wait.
func (e *engine) roomOf(cfg *Config, t *tier) tier {
	whole := *cfg
	whole.Spreads = false
	return widened(&whole, t.name, limits{tokens: t.policy.Share(e.challenge.share)})
}

// passOf compiles what a tally that is bought may use, where tallies are sold.
func (e *engine) passOf(cfg *Config, t *tier) *tier {
	p := t.policy.Pass(e.challenge.passTime)
	pass := &tier{name: t.name, policy: p, field: policyField(e.carriage.fields, p), names: t.names, room: t.room}
	switch {
	case cfg.UnfairCeiling:
		pass.divide(cfg)
	case cfg.Instances > 1: // with Spreads too: its home is known, and admits all of it
		pass.away = foreignShareOf(p, cfg.Instances)
	}
	return pass
}

// chargeLate has the limits at some indexes count by outcome.
func (t *tier) chargeLate(indexes []int) {
	isLate := func(i int) bool { return slices.Contains(indexes, i) }
	atDoor := func(i int) bool { return !isLate(i) }
	t.late, t.policy = t.policy.Charging(isLate), t.policy.Charging(atDoor)
	if t.net56 != nil {
		t.late56, t.late48 = t.net56.Charging(isLate), t.net48.Charging(isLate)
		t.net56, t.net48 = t.net56.Charging(atDoor), t.net48.Charging(atDoor)
	}
	if t.ceiling != nil {
		t.lateCeiling, t.ceiling = t.ceiling.Charging(isLate), t.ceiling.Charging(atDoor)
	}
}

// tiersOf returns the base and all other tiers.
func (e *engine) tiersOf() []*tier {
	all := []*tier{&e.base}
	for _, t := range e.tiers {
		all = append(all, t)
	}
	return all
}

// quotaHash tells the quotas of one tier from those of another.
func quotaHash(p *limiter.Policy) guardedcall.Key {
	h := sha256.New()
	for i := range p.Len() {
		l := p.Limit(i)
		fmt.Fprintf(h, "%d %d;", l.Quota, l.Burst)
	}
	return guardedcall.Key(h.Sum(nil)[:16])
}

// A ceiling is what one instance admits of a tally, whatever its token shows: its share where the
// balancer spreads requests, see [limiter.Policy.Spread], or one part in Instances. An instance that
// sees a tally for the first time has to believe that nothing was used of it, so that N instances
// admit N quotas to a client that drops its token. With parts they admit one together, and C that
// start anew C parts more.
//
// No rule of that kind is fair to all. An instance cannot tell a client that drops its token from one
// that the balancer has sent to no other: docs/proof.md. So it is an option, and is named for
// what it does, or supposes. Networks have no cells but those of this instance's own count: theirs
// is a part in the same way, without a second one.

// divide compiles what this instance admits of a tally, where that is a part.
func (t *tier) divide(cfg *Config) {
	if part := cfg.partOf(t.policy); part != t.policy {
		t.ceiling = part
	}
}

// partOf returns what this instance admits of p by itself.
func (c *Config) partOf(p *limiter.Policy) *limiter.Policy {
	switch {
	case c.UnfairCeiling: // which is less
		return p.Share(c.Instances)
	case c.Spreads:
		return p.Spread(c.Instances)
	}
	return p
}

// clients returns how many clients the memory has to have room for. An IPv6 client takes
// three cells of each limit, and one more under a ceiling.
func (c *Config) clients() int {
	if c.UnfairCeiling || c.Spreads {
		return c.MaxClients + (c.MaxClients+2)/3
	}
	return c.MaxClients
}

// checkCeiling reports every problem of cfg.UnfairCeiling: of the policies of all tiers, each with the
// field that it is compiled of, and of the challenge, if there is one.
// A part below 1 is a problem and is not rounded up: the ceiling would not be one.
func checkCeiling(cfg *Config, challenge *challenger, tiers iter.Seq2[string, *limiter.Policy]) (errs []error) {
	problem := func(field, format string, args ...any) {
		errs = append(errs, &storeless.ConfigError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	switch {
	case cfg.Exact != nil:
		problem("UnfairCeiling", "cannot go with Exact: there is one quota for all instances, which the counter holds")
		return errs
	case cfg.Instances < 2:
		problem("UnfairCeiling", "needs Instances of at least 2 to divide by; where one instance serves, leave it out: the memory holds the quota")
	}
	if cfg.InsecureNoMemory {
		problem("UnfairCeiling", "cannot go with InsecureNoMemory: nothing would know what an instance has admitted")
	}
	for at, p := range tiers {
		parts := indivisible(p, cfg.Instances)
		for _, part := range parts {
			problem(fmt.Sprintf("%s[%d].%s", at, part.index, part.field), "%s", part.problem)
		}
		if len(parts) == 0 && challenge != nil {
			errs = append(errs, challenge.indivisible(p, cfg.Instances)...)
		}
	}
	return errs
}

// An undivided is a number of a limit of which not each instance can have a part.
type undivided struct {
	index          int
	field, problem string
}

// indivisible returns what of p n instances cannot divide.
func indivisible(p *limiter.Policy, n int64) (list []undivided) {
	for i := range p.Len() {
		l := p.Limit(i)
		add := func(field string, has int64) {
			list = append(list, undivided{i, field, fmt.Sprintf(
				"must be at least Instances under UnfairCeiling: %d cannot be divided by %d; raise it, or leave UnfairCeiling out", has, n)})
		}
		switch {
		case l.Algorithm == storeless.LeakyBucket:
			list = append(list, undivided{i, "Algorithm",
				"must be another under UnfairCeiling: a LeakyBucket admits one at once, which cannot be divided; use a TokenBucket with a Burst of at least Instances"})
			continue
		case l.Quota < n:
			add("Quota", l.Quota)
		}
		if l.Algorithm == storeless.TokenBucket && l.Burst < n && l.Burst != l.Quota { // else it is said of the quota
			add("Burst", l.Burst)
		}
	}
	return list
}

// indivisible reports what of a bought tally, and of the waiting room, n instances cannot divide.
func (c *challenger) indivisible(p *limiter.Policy, n int64) (errs []error) {
	if c.mode != EveryRequest {
		for _, part := range indivisible(p.Pass(c.passTime), n) {
			errs = append(errs, &storeless.ConfigError{Field: "Challenge.PassTime", Problem: fmt.Sprintf(
				"leaves a bought tally too little of the limit %s to be divided by Instances, %d, under UnfairCeiling; raise it to the limit's window, or use EveryRequest", p.Limit(part.index).Name, n)})
		}
	}
	if c.share != 0 {
		for _, part := range indivisible(p.Share(c.share), n) {
			errs = append(errs, &storeless.ConfigError{Field: "Challenge.WaitingRoom", Problem: fmt.Sprintf(
				"has too little of the limit %s to be divided by Instances, %d, under UnfairCeiling; close the room, or give it a larger part", p.Limit(part.index).Name, n)})
		}
	}
	return errs
}

// divides reports whether each instance has a part of all that a customer of these limits may
// use; without UnfairCeiling there are no parts.
func (c *customers) divides(e *engine, p *limiter.Policy) bool {
	return !c.cfg.UnfairCeiling || len(indivisible(p, c.cfg.Instances)) == 0 &&
		(e.challenge == nil || len(e.challenge.indivisible(p, c.cfg.Instances)) == 0)
}
