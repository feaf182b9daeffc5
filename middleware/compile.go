// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"slices"
	"sync"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/middleware/internal/ticket"
)

// compile checks cfg and compiles all of it but the memory.
func compile(cfg Config) (*engine, error) {
	cfg = withDefaults(cfg)
	c, err := check(&cfg)
	if err != nil {
		return nil, err
	}
	units := unitsOf(&cfg, c.base.tokens)
	e := &engine{
		name:      cfg.Policy,
		base:      widened(&cfg, "", c.base, units),
		tiers:     make(map[string]*tier, len(c.tiers)),
		codec:     c.codec,
		carried:   c.carried,
		life:      c.life,
		challenge: c.challenge,
		hooks:     hooks{identity: cfg.Identity, cost: cfg.Cost, skip: cfg.Skip, refused: cfg.RefusalHandler, page: cfg.PageHandler, onDecision: cfg.OnDecision},
		bodies:    &sync.Pool{New: newBody},
		now:       cfg.Now,
		transport: transportOf(&cfg, c.challenge),
		shadow:    cfg.Shadow,
		forgets:   cfg.InsecureNoMemory,
		hearing:   cfg.Peers != nil,
		instances: cfg.Instances,
		units:     compileUnits(&cfg, units),
	}
	if cfg.Exact != nil {
		e.exact = &exactCounter{
			Exact: *cfg.Exact,
			guard: guardedcall.Guard{Counter: cfg.Exact.Counter, Deadline: cfg.Exact.Deadline, InFlight: cfg.Exact.InFlight},
			stamp: c.base.tokens.Len(),
		}
	}
	if cfg.Concurrency != nil {
		e.gate = &gate{Concurrency: *cfg.Concurrency}
	}
	for name, p := range c.tiers {
		t := widened(&cfg, name, p, units)
		e.tiers[name] = &t
	}
	if err := e.leaseSlots(&cfg); err != nil {
		return nil, err
	}
	if err := e.openRoom(&cfg); err != nil {
		return nil, err
	}
	e.issuePasses()
	if e.pseudonyms, err = newPseudonymKey(cfg.Secrets[0]); err != nil {
		return nil, err
	}
	e.introduce()
	if cfg.ByOutcome != nil {
		e.countByOutcome(&cfg, c.late)
	}
	if cfg.LimitsFor != nil {
		e.serveCustomers(&cfg, c.late)
	}
	if c := e.challenge; c != nil {
		c.codec = e.codec
		if e.base.pass != nil {
			c.pass = e.base.pass.policy
		}
	}
	if e.hooks.identity == nil {
		e.hooks.identity = PeerAddress
	}
	return e, nil
}

// openRoom compiles the waiting room of a policy, and the room of each tier, where it is on.
func (e *engine) openRoom(cfg *Config) error {
	if e.challenge == nil || e.challenge.share == 0 {
		return nil
	}
	tickets, err := ticket.NewKeys(cfg.Policy, cfg.Secrets)
	if err != nil {
		return err
	}
	for _, t := range e.tiersOf() {
		room := e.roomOf(cfg, t)
		t.room = &room
	}
	e.room = &waitingRoom{codec: e.codec, tickets: tickets, uses: new(ticket.Uses)}
	return nil
}

// leaseSlots compiles the limits by which an exact counter leases slots, for each tier.
func (e *engine) leaseSlots(cfg *Config) (err error) {
	if e.gate == nil || e.exact == nil {
		return nil
	}
	for _, t := range e.tiersOf() {
		if t.leases, err = e.gate.leases(cfg, t.name); err != nil {
			return err
		}
	}
	return nil
}

// issuePasses compiles what a bought tally may use, for each tier, where tallies are sold.
func (e *engine) issuePasses() {
	if !e.challenge.sellsTallies() {
		return
	}
	e.challenge.passLife = e.base.policy.PassLife(e.challenge.passTime) // the windows of all tiers are the same
	for _, t := range e.tiersOf() {
		t.pass = e.passOf(t)
	}
}

// introduce tells the tiers of each other. They count in the same tallies, so each
// has to know how much a bucket of any of them may be owed.
func (e *engine) introduce() {
	tiers, rooms, passes := e.tiersOf(), []*tier(nil), []*tier(nil)
	for _, t := range tiers {
		if t.room != nil {
			rooms = append(rooms, t.room)
		}
		if t.pass != nil {
			passes = append(passes, t.pass)
		}
	}
	for _, group := range [][]*tier{tiers, rooms, passes} {
		for _, role := range []func(*tier) **limiter.Policy{
			func(t *tier) **limiter.Policy { return &t.policy },
			func(t *tier) **limiter.Policy { return &t.net56 },
			func(t *tier) **limiter.Policy { return &t.net48 },
			func(t *tier) **limiter.Policy { return &t.fallback },
		} {
			var largest *limiter.Policy
			var all []*limiter.Policy
			for _, t := range group {
				all = append(all, *role(t))
			}
			if len(all) > 0 && all[0] != nil {
				largest = all[0].WithTiers(all...)
			}
			for _, t := range group {
				if p := role(t); *p != nil { // there is a fallback on exact routes alone
					*p = (*p).WithTiers(largest)
				}
			}
		}
	}
}

// countByOutcome has the limits at the places late count by outcome, in each tier.
func (e *engine) countByOutcome(cfg *Config, late []int) {
	e.freeStatuses = slices.Clone(cfg.ByOutcome.Free)
	for _, t := range e.tiersOf() {
		t.chargeLate(late)
	}
}

// transportOf compiles how tokens and limits go between a policy and its clients.
func transportOf(cfg *Config, c *challenger) transport {
	t := transport{kind: cfg.TokenTransport, quiet: cfg.Quiet, fields: cfg.Fields, embedded: cfg.EmbeddedCookie}
	t.cookieName, t.cookieAttributes = cookieParts(cfg)
	t.cookieSuffixes = []string{scopeSuffix + "#"}
	if c != nil {
		t.cookieSuffixes = append(t.cookieSuffixes, proofSuffix+proofDigits, keptSuffix)
		if c.share != 0 {
			t.cookieSuffixes = append(t.cookieSuffixes, roomSuffix)
		}
	}
	return t
}

// cookieParts returns the name of the cookie and what stands after its Max-Age.
func cookieParts(cfg *Config) (name, attributes string) {
	name = "tallystick-" + cfg.Policy
	switch {
	case cfg.InsecureCookie:
		return name, "; Path=/; HttpOnly; SameSite=Lax"
	case cfg.EmbeddedCookie:
		attributes = "; Path=/; HttpOnly; Secure; SameSite=None; Partitioned"
	default:
		// Not Strict: a first visit by a link from elsewhere would hide the
		// cookie, and the client would seem to be new.
		attributes = "; Path=/; HttpOnly; Secure; SameSite=Lax"
	}
	return "__Host-" + name, attributes
}
