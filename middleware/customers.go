// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/internal/lookup"
)

// serveCustomers compiles cfg.LimitsFor. All tiers are compiled.
func (e *engine) serveCustomers(cfg *Config, late []int) {
	c := &customLimits{LimitsFor: *cfg.LimitsFor, cfg: *cfg, late: late}
	c.cfg.Secrets, c.cfg.Limits, c.cfg.Tiers, c.cfg.Units = nil, nil, nil, nil
	e.customLimits = c
	c.forget(e)
	c.answers = &lookup.Table[customer, ownLimits]{
		Ask:      e.askLimits,
		Failed:   e.noLimits,
		Keep:     customer.kept,
		Life:     c.Life,
		Deadline: c.Deadline,
		Entries:  c.Customers,
	}
}

// adopt takes over what was known before a new configuration.
func (c *customLimits) adopt(was *customLimits) {
	// Compiled anew when it is needed: to do so for all of them takes its time.
	c.answers.Adopt(was.answers, func(o ownLimits) ownLimits { return ownLimits{limits: o.limits} })
}

// longestName bounds the name of a customer, with what it is narrowed to. A client may have typed a
// name of megabytes, and a table of such entries would take all of the machine's memory.
const longestName = 1024

// customerOf returns the customer that id is, if it may have limits of its own. An address never is
// one, whatever it is narrowed to: a client has as many as it likes.
func customerOf(id *Identity) (c customer, ok bool) {
	ok = id.kind == kindKey || id.kind == kindPrincipal
	return customer{id.kind, id.named, id.text, id.Tier}, ok && len(id.text) <= longestName
}

// kept returns c without what its strings may be parts of, such as all fields of a request.
func (c customer) kept() customer {
	c.text, c.tier = strings.Clone(c.text), strings.Clone(c.tier)
	return c
}

// ownTierOf gives a subject limits of its own, if it has them, in place of the tier that its
// identity names.
func (e *engine) ownTierOf(ctx context.Context, now time.Time, who *subject) {
	c, ok := customerOf(who.id)
	if !ok {
		return
	}
	own, fresh := e.customLimits.answers.Fresh(now, c)
	if !fresh {
		own, _ = e.customLimits.answers.Get(ctx, now, c)
		who.waited = true
	}
	switch {
	case own.tier != nil:
		who.tier = own.tier
	case own.limits != nil: // what was known before a new configuration
		if t, err := e.compileOwn(who.tier, own.limits); err == nil {
			who.tier = t
		}
	}
}

// askLimits asks for the limits of a customer.
func (e *engine) askLimits(ctx context.Context, c customer) (own ownLimits, err error) {
	list, err := e.customLimits.Func(ctx, Identity{Tier: c.tier, kind: c.kind, named: c.named, text: c.text})
	if err != nil || len(list) == 0 {
		return own, err
	}
	own.limits = slices.Clone(list)
	tier := &e.base
	if t, ok := e.tiers[c.tier]; ok {
		tier = t
	}
	own.tier, err = e.compileOwn(tier, own.limits)
	return own, err
}

// noLimits tells of a function that fails.
func (e *engine) noLimits(err error) {
	args := []any{"error", err}
	if p, ok := errors.AsType[*lookup.Panic](err); ok {
		args = append(args, "stack", string(p.Stack))
	}
	e.checks.warn(e.now(), limitsFailed, args...)
}

// compileOwn compiles limits of a customer of a tier.
func (e *engine) compileOwn(of *tier, list []Limit) (*tier, error) {
	c := e.customLimits
	l, err := compileLimits(&c.cfg, list)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer is not sound: %w", err)
	case !limits{e.base.policy, e.base.exact}.sameShape(l):
		return nil, errors.New("the answer must have the names, algorithms, windows and zones of Limits, and the same Shadow, in that order")
	case !e.carries(l.tokens):
		return nil, errors.New("the quotas of the answer are too long for a token; use fewer limits or a shorter policy name")
	}
	if e.exact != nil { // or each customer would keep its own copy of a zone, some kilobytes
		l.exact.Plan().Calendars = e.base.exact.Plan().Calendars
	}
	numbers := numbersOf(of.name, l.tokens)
	c.mu.Lock()
	t := c.tiers[numbers]
	c.mu.Unlock()
	if t != nil {
		return t, nil
	}
	t = e.newOwn(of, l)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.tiers) >= c.Customers {
		c.forget(e)
	}
	c.tiers[numbers] = t
	return t, nil
}

// newOwn compiles what follows from the limits of a customer. It is no address, and has no
// networks around it.
func (e *engine) newOwn(of *tier, l limits) *tier {
	c := e.customLimits
	t := newTier(&c.cfg, of.name, l, of.units)
	t.names, t.leases = of.names, of.leases
	if of.room != nil {
		room := e.roomOf(&c.cfg, &t)
		room.policy = room.policy.WithTiers(of.room.policy)
		t.room = &room
	}
	if of.pass != nil {
		t.pass = e.passOf(&t)
		t.pass.policy = t.pass.policy.WithTiers(of.pass.policy)
	}
	t.policy = t.policy.WithTiers(of.policy)
	if t.fallback != nil {
		t.fallback = t.fallback.WithTiers(of.fallback)
	}
	if len(c.late) > 0 {
		t.chargeLate(c.late)
	}
	return &t
}

// carries reports whether tokens have room for what is counted under p.
func (e *engine) carries(p *limiter.Policy) bool {
	if e.exact != nil {
		marked, err := limiter.Compile(p.Name(), withStamp(p))
		return err == nil && e.codec.Carries(marked)
	}
	if e.challenge.sellsTallies() {
		return e.codec.Carries(p, p.Pass(e.challenge.passTime))
	}
	return e.codec.Carries(p)
}

// forget reduces the tiers that customers share to the tiers of the configuration.
func (c *customLimits) forget(e *engine) {
	c.tiers = make(map[string]*tier, len(e.tiers)+1)
	for _, t := range e.tiersOf() {
		c.tiers[numbersOf(t.name, t.policy)] = t
	}
}

// numbersOf tells the limits of different customers of a policy apart.
func numbersOf(tier string, p *limiter.Policy) string {
	b := append([]byte(tier), 0)
	for i := range p.Len() {
		l := p.Limit(i)
		b = strconv.AppendInt(append(b, ' '), l.Quota, 10)
		b = strconv.AppendInt(append(b, '/'), l.Burst, 10)
	}
	return string(b)
}
