// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
)

// A tier is one set of limits, with all that follows from them.
type tier struct {
	name         string
	policy       *limiter.Policy
	net56, net48 *limiter.Policy // for whole IPv6 networks
	field        string          // RateLimit-Policy
	units        []string        // that the limits count, "" being Config.Cost; nil: all do
	names        []string        // of the limits; "" of shadows, which are told to nobody
	room         *tier           // for the waiting room; nil: none
	pass         *tier           // what a tally that is bought may use; nil: none is sold

	// The limits that count by outcome, where there are any: all others are charged by those above.
	late, late56, late48 *limiter.Policy
	lateLimits           uint8 // a bit for each

	// On an exact route alone.
	exact     *exact.Policy
	fallback  *limiter.Policy // when the counter does not answer
	quotaHash guardedcall.Key
	leases    *exact.Policy // of slots, where there is a Concurrency
}

// A customer is an identity that may have limits of its own, as a key.
type customer struct {
	kind  byte
	named uint32
	text  string
	tier  string
}

// ownLimits are what was said of a customer: nothing, or its limits.
type ownLimits struct {
	limits []Limit // nil: none of its own
	tier   *tier   // nil: not compiled yet
}

// tooDear reports whether a request of this price is more than any pass has, so that no
// tally that is for sale can pay for it.
func (t *tier) tooDear(price limiter.Price) bool {
	return t.pass != nil && t.pass.policy.TooDear(price) >= 0
}

// lateOf returns the limits that count by outcome of the network that has the limits p at the door.
func (t *tier) lateOf(p *limiter.Policy) *limiter.Policy {
	if p == t.net56 {
		return t.late56
	}
	return t.late48
}

// most returns the largest cost that a request may ever have, by what limits say that count Config.Cost.
func (t *tier) most() int64 {
	if t.units == nil {
		return t.policy.Capacity()
	}
	most := int64(limiter.MaxQuota)
	for i, unit := range t.units {
		if l := t.policy.Limit(i); unit == "" && !l.Shadow {
			most = min(most, atOnce(l))
		}
	}
	return most
}

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
	t := tier{name: name, policy: p, units: unitsOf(cfg, p)}
	t.field = policyField(cfg.Fields, p, t.units)
	for i := range p.Len() {
		name := p.Limit(i).Name
		if p.Limit(i).Shadow { // it is told to nobody
			name = ""
		}
		t.names = append(t.names, name)
	}
	if cfg.Exact != nil {
		t.exact, t.fallback = l.exact, p.Share(cfg.Instances)
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
	t.net56, t.net48 = p.Scale(cfg.Net56Factor), p.Scale(cfg.Net48Factor)
}

// roomOf compiles the waiting room of a tier.
func (e *engine) roomOf(cfg *Config, t *tier) tier {
	return widened(cfg, t.name, limits{tokens: t.policy.Share(e.challenge.share)})
}

// passOf compiles what a tally that is bought may use, where tallies are sold.
func (e *engine) passOf(t *tier) *tier {
	p := t.policy.Pass(e.challenge.passTime)
	return &tier{name: t.name, policy: p, field: policyField(e.carriage.fields, p, t.units), names: t.names, units: t.units, room: t.room}
}

// chargeLate has the limits at some indexes count by outcome.
func (t *tier) chargeLate(indexes []int) {
	isLate := func(i int) bool { return slices.Contains(indexes, i) }
	for _, i := range indexes {
		t.lateLimits |= 1 << i
	}
	atDoor := func(i int) bool { return !isLate(i) }
	t.late, t.policy = t.policy.Charging(isLate), t.policy.Charging(atDoor)
	if t.net56 != nil {
		t.late56, t.late48 = t.net56.Charging(isLate), t.net48.Charging(isLate)
		t.net56, t.net48 = t.net56.Charging(atDoor), t.net48.Charging(atDoor)
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
