// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
)

// limits are compiled limits; exact is nil where no counter decides.
type limits struct {
	tokens *limiter.Policy
	exact  *exact.Policy
}

// sameShape reports whether tallies and accounts of one serve for the other.
func (l limits) sameShape(of limits) bool {
	return l.tokens.SameShape(of.tokens) && (l.exact == nil || l.exact.SameShape(of.exact))
}

// newTier compiles what follows from a set of limits.
func newTier(cfg *Config, name string, l limits, units []string) tier {
	p := l.tokens
	t := tier{name: name, policy: p, units: units}
	t.field = policyField(cfg.Fields, p, t.units, l.exact)
	for i := range p.Len() {
		name := ""
		if l := p.Limit(i); !l.Shadow { // no client hears of one
			name = `"` + l.Name + `"`
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
func widened(cfg *Config, name string, l limits, units []string) tier {
	t := newTier(cfg, name, l, units)
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
	return widened(cfg, t.name, limits{tokens: t.policy.Share(e.challenge.share)}, t.units)
}

// passOf compiles what a tally that is bought may use, where tallies are sold.
func (e *engine) passOf(t *tier) *tier {
	p := t.policy.Pass(e.challenge.passTime)
	return &tier{name: t.name, policy: p, field: policyField(e.transport.fields, p, t.units, nil), names: t.names, units: t.units, room: t.room}
}

// chargeLate has the limits at some indexes count by outcome.
func (t *tier) chargeLate(indexes []int) {
	isLate := func(i int) bool { return slices.Contains(indexes, i) }
	for _, i := range indexes {
		t.lateLimits |= 1 << i
		t.lateIDs += uint64(t.policy.ID(i))
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

// quotaHash tells the quotas of different tiers apart.
func quotaHash(p *limiter.Policy) guardedcall.Key {
	h := sha256.New()
	for i := range p.Len() {
		l := p.Limit(i)
		fmt.Fprintf(h, "%d %d;", l.Quota, l.Burst)
	}
	return guardedcall.Key(h.Sum(nil)[:16])
}

// unitsOf returns the unit of each limit, or nil if all count Config.Cost.
func unitsOf(cfg *Config, p *limiter.Policy) (units []string) {
	if len(cfg.Units) == 0 {
		return nil
	}
	units = make([]string, p.Len())
	for name, u := range cfg.Units {
		for i := range units {
			if slices.Contains(u.Limits, p.Limit(i).Name) {
				units[i] = name
			}
		}
	}
	return units
}

// compileUnits returns the units in the order of their names, or nil; of has the unit of each limit.
func compileUnits(cfg *Config, of []string) (units []unit) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Units)) {
		u := unit{name: name, cost: cfg.Units[name].Cost}
		for i := range of {
			if of[i] == name {
				u.limits |= 1 << i
			}
		}
		units = append(units, u)
	}
	return units
}
