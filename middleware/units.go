// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// A unit is a compiled [Unit].
type unit struct {
	name   string
	limits uint8 // a bit for each
	cost   func(*http.Request) int64
}

// has reports whether the i-th of a set of limits is in it.
func has(limits uint8, i int) bool { return limits>>i&1 != 0 }

// unitCosts are what a request costs on each limit, and what settlements have added to that.
type unitCosts struct {
	costs limiter.Costs

	mu   sync.Mutex // for settlements of several units at once
	more limiter.Costs
}

// add adds what a settlement has changed.
func (u *unitCosts) add(c *changed) {
	for i := range u.more {
		u.more[i] += c.of(i)
	}
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

// unit returns the unit of the i-th limit.
func (t *tier) unit(i int) string {
	if t.units == nil {
		return ""
	}
	return t.units[i]
}

// compileUnits returns the units in the order of their names, or nil.
func compileUnits(cfg *Config, p *limiter.Policy) (units []unit) {
	of := unitsOf(cfg, p)
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

// checkUnits reports every problem of cfg.Units.
func checkUnits(cfg *Config, p *limiter.Policy) (errs []error) {
	var names []string
	for i := 0; p != nil && i < p.Len(); i++ {
		names = append(names, p.Limit(i).Name)
	}
	taken := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(cfg.Units)) {
		problem := func(format string, args ...any) {
			errs = append(errs, &storeless.ConfigError{Field: fmt.Sprintf("Units[%q]", name), Problem: fmt.Sprintf(format, args...)})
		}
		if !limiter.ValidName(name) {
			problem("must be named by 1 to 48 of a-z, 0-9 and -")
		}
		u := cfg.Units[name]
		if len(u.Limits) == 0 {
			problem("must name the Limits that count it")
		}
		for _, l := range u.Limits {
			switch {
			case p != nil && !slices.Contains(names, l):
				problem("has the limit %q, which is none of %s", l, strings.Join(names, ", "))
			case taken[l] != "":
				problem("has the limit %q, which Units[%q] has too; a limit counts one unit", l, taken[l])
			case cfg.ByOutcome != nil && slices.Contains(cfg.ByOutcome.Limits, l):
				problem("has the limit %q, which ByOutcome has too; what counts by outcome counts Cost", l)
			}
			taken[l] = name
		}
	}
	return errs
}

// priceOf returns what a request of this cost costs on each limit.
func (q *question) priceOf(cost int64) limiter.Price { return limiter.Price{Cost: cost, Each: q.each} }

// costUnits prices a request in each unit, unless it peeks. It is not ok where the program is at fault.
func (q *question) costUnits() (ok bool) {
	d := &q.dc.decision
	if d.Cost == 0 {
		return true
	}
	u, most := new(unitCosts), int64(0)
	for i := range q.who.tier.units {
		u.costs[i] = d.Cost
	}
	for _, unit := range q.units {
		cost := int64(1)
		if given, there := q.costs[unit.name]; there {
			cost = given
		} else if q.r != nil && unit.cost != nil {
			if cost, ok = q.costBy(unit.cost); !ok {
				return false
			}
		}
		for i := range q.who.tier.units {
			if has(unit.limits, i) {
				u.costs[i] = cost
			}
		}
	}
	for i := range q.who.tier.units {
		most = max(most, u.costs[i])
	}
	if most == 0 { // it peeks
		d.Cost = 0
		return true
	}
	d.withExtras().units, q.each = u, &u.costs
	return true
}

// knowsCosts reports whether costs are of units of the policy, and none is negative.
func (e *engine) knowsCosts(costs map[string]int64) bool {
	for name, cost := range costs {
		if cost < 0 || !slices.ContainsFunc(e.units, func(u unit) bool { return u.name == name }) {
			return false
		}
	}
	return true
}

// limitsIn returns the limits that count these units, "" being Config.Cost; of none, those that count Config.Cost.
func (e *engine) limitsIn(units []string) (limits uint8, err error) {
	all := uint8(1<<e.base.policy.Len() - 1)
	byCost := all
	for i := range e.units {
		byCost &^= e.units[i].limits
	}
	if len(units) == 0 {
		return byCost, nil
	}
	for _, name := range units {
		i := slices.IndexFunc(e.units, func(u unit) bool { return u.name == name })
		switch {
		case i >= 0:
			limits |= e.units[i].limits
		case name == everyUnit[0]:
			return all, nil
		case name == "":
			limits |= byCost
		default:
			return 0, fmt.Errorf("middleware: the policy has no unit %q", name)
		}
	}
	return limits, nil
}
