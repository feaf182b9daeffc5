// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/span"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// withDefaults fills in what cfg leaves zero. What it points to is a copy, which the program cannot change.
func withDefaults(cfg Config) Config {
	cfg.Instances = cmp.Or(cfg.Instances, 1)
	if cfg.Instances > 0 && cfg.Peers != nil && cfg.Peers.Records() != nil {
		cfg.Instances = max(cfg.Instances, int64(len(cfg.Peers.Stats().List)))
	}
	cfg.Net56Factor = cmp.Or(cfg.Net56Factor, 8)
	cfg.Net48Factor = cmp.Or(cfg.Net48Factor, max(64, cfg.Net56Factor))
	cfg.Fields = cmp.Or(cfg.Fields, RateLimitFields)
	cfg.MaxClients = cmp.Or(cfg.MaxClients, limiter.DefaultClients)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Exact != nil {
		cfg.Exact = new(cfg.Exact.withDefaults())
	}
	if cfg.LimitsFor != nil {
		cfg.LimitsFor = new(cfg.LimitsFor.withDefaults())
	}
	if cfg.Concurrency != nil {
		cfg.Concurrency = new(cfg.Concurrency.withDefaults())
	}
	return cfg
}

// mostClients keeps a mistaken size from taking all memory: 16 Mi clients of one limit
// are a GiB.
const mostClients = 1 << 24

// mostInstances keeps a mistaken number from making all parts of a quota 1.
const mostInstances = 1 << 20

// validate reports every problem of cfg, which has its defaults, that is not one of limits
// or secrets. The rules are written out: a validation library would link more than the rest
// of Tallystick together into every program, for a dozen comparisons.
func validate(cfg *Config) error {
	var errs []error
	for _, rule := range []struct {
		broken         bool
		field, problem string
	}{
		{cfg.TokenTransport > MemoryOnly, "TokenTransport", "must be HeaderOrCookie, HeaderOnly, CookieOnly or MemoryOnly"},
		{cfg.TokenTransport == HeaderOnly && (cfg.EmbeddedCookie || cfg.InsecureCookie),
			"TokenTransport", "HeaderOnly sends no cookie for EmbeddedCookie or InsecureCookie to change"},
		{cfg.TokenTransport == MemoryOnly && cfg.InsecureNoMemory,
			"TokenTransport", "MemoryOnly cannot go with InsecureNoMemory: nothing would count"},
		{cfg.Fields&^allFields != 0, "Fields", "must be of the constants of Fields"},
		{cfg.MaxClients < 0 || cfg.MaxClients > mostClients, "MaxClients", "must be from 1 to 16777216, or 0 for 65536"},
		{cfg.Instances < 1 || cfg.Instances > mostInstances, "Instances", "must be from 1 to 1048576, or 0 for 1"},
		{cfg.Net56Factor < 1 || cfg.Net56Factor > storeless.MaxQuota, "Net56Factor", "must be from 1 to 2147483647, or 0 for 8"},
		{cfg.Net48Factor < max(1, cfg.Net56Factor) || cfg.Net48Factor > storeless.MaxQuota,
			"Net48Factor", "must be from Net56Factor to 2147483647, or 0 for 64 or a larger Net56Factor"},
		{cfg.EmbeddedCookie && cfg.InsecureCookie,
			"EmbeddedCookie", "cannot go with InsecureCookie: browsers store a Partitioned cookie only if it is Secure"},
		{cfg.Exact != nil && cfg.Challenge != nil,
			"Challenge", "cannot go with Exact: a tally that is bought would be a quota beside the counter's"},
		{cfg.Peers != nil && cfg.Peers.Records() == nil, "Peers", "must be made by peers.Open"},
		{cfg.Peers != nil && cfg.Exact != nil, "Peers", "cannot go with Exact: its counter counts for all processes already"},
		{cfg.Peers != nil && cfg.InsecureNoMemory, "Peers", "cannot go with InsecureNoMemory: peers tell what memories count"},
		{cfg.Exact != nil && (len(cfg.Limits) >= storeless.MaxLimits || slices.Contains(limiter.Names(cfg.Policy, cfg.Limits), stampName)),
			"Limits", fmt.Sprintf("on an exact route at most %d, none of them named %q", storeless.MaxLimits-1, stampName)},
		{cfg.LimitsFor != nil && cfg.Identity == nil, "LimitsFor", "needs an Identity: addresses have no limits of their own"},
		{cfg.PageHandler != nil && cfg.RefusalHandler != nil, "PageHandler", "cannot go with RefusalHandler, which answers every client"},
	} {
		if rule.broken {
			errs = append(errs, &storeless.ConfigError{Field: rule.field, Problem: rule.problem})
		}
	}
	return told(errs...)
}

// compileLimits compiles the limits of the policy, or of a tier.
func compileLimits(cfg *Config, list []Limit) (limits, error) {
	if cfg.Exact == nil {
		p, err := limiter.Compile(cfg.Policy, list)
		return limits{tokens: p}, told(err, mistakesForExact(cfg.Policy, list, told(err)))
	}
	p, err := exact.Compile(cfg.Policy, list)
	if err != nil {
		return limits{}, err
	}
	tokens, err := limiter.Compile(cfg.Policy, limiter.Carried(cfg.Policy, list))
	return limits{tokens, p}, told(err)
}

// mistakesForExact returns what else is wrong with limits that need the counter that they do not have: their owner may give them one.
func mistakesForExact(policy string, list []Limit, known error) error {
	if !slices.ContainsFunc(list, func(l Limit) bool { return l.Calendar != "" || l.Algorithm >= storeless.SlidingLog }) {
		return nil
	}
	var errs []error
	seen := slices.Collect(storeless.ConfigErrors(known))
	_, err := exact.Compile(policy, list)
	for p := range storeless.ConfigErrors(err) {
		if !strings.HasSuffix(p.Field, ".Shadow") && !slices.ContainsFunc(seen, func(s *storeless.ConfigError) bool { return *s == *p }) {
			errs = append(errs, p)
		}
	}
	return told(errs...)
}

// compileTiers compiles the limits of cfg: the base policy, and one for each
// tier. It reports all problems.
func compileTiers(cfg *Config) (base limits, tiers map[string]limits, err error) {
	base, err = compileLimits(cfg, cfg.Limits)
	errs := []error{err}
	tiers = make(map[string]limits, len(cfg.Tiers))
	for _, name := range slices.Sorted(maps.Keys(cfg.Tiers)) {
		at := fmt.Sprintf("Tiers[%q]", name)
		if name == "" {
			errs = append(errs, &storeless.ConfigError{Field: at, Problem: "a tier needs a name; identities without one get Limits"})
		}
		tier, err := compileLimits(cfg, cfg.Tiers[name])
		for problem := range storeless.ConfigErrors(err) {
			if problem.Field != "Policy" { // said once, of the base
				field := at + strings.TrimPrefix(problem.Field, "Limits") // Limits[1].Quota becomes Tiers["pro"][1].Quota
				errs = append(errs, &storeless.ConfigError{Field: field, Problem: problem.Problem})
			}
		}
		if !sameShape(cfg, base, tier, cfg.Tiers[name]) {
			errs = append(errs, &storeless.ConfigError{Field: at, Problem: "must have the names, algorithms, windows and zones of Limits, and the same Shadow, in that order; tiers differ in Quota and Burst alone"})
		}
		tiers[name] = tier
	}
	return base, tiers, told(errs...)
}

// sameShape reports whether a tier has the shape of the base. Where one of them has mistakes, it compares what has none.
func sameShape(cfg *Config, base, tier limits, list []Limit) bool {
	if base.tokens != nil && tier.tokens != nil {
		return base.sameShape(tier)
	}
	if len(list) != len(cfg.Limits) {
		return len(list) == 0 || len(cfg.Limits) == 0
	}
	alone := Config{Policy: "policy", Exact: cfg.Exact}
	shape := func(l Limit, name string) limits {
		l.Name, l.Quota, l.Burst, l.Shadow = name, 1, 0, false
		one, _ := compileLimits(&alone, []Limit{l})
		return one
	}
	names, others := limiter.Names(alone.Policy, cfg.Limits), limiter.Names(alone.Policy, list)
	for i, l := range cfg.Limits {
		if !limiter.ValidName(names[i]) || !limiter.ValidName(others[i]) {
			names[i], others[i] = "any", "any"
		}
		a, b := shape(l, names[i]), shape(list[i], others[i])
		if a.tokens != nil && b.tokens != nil && !a.sameShape(b) || cfg.Exact == nil && l.Shadow != list[i].Shadow {
			return false
		}
	}
	return true
}

// compiled is what check finds out on the way.
type compiled struct {
	base      limits
	tiers     map[string]limits
	carried   *limiter.Policy
	life      time.Duration // of what is signed
	codec     *token.Codec
	challenge *challenger
	late      []int // the limits that count by outcome
}

// check reports every problem of cfg at once and returns what was compiled on
// the way.
func check(cfg *Config) (c compiled, err error) {
	c.base, c.tiers, err = compileTiers(cfg)
	errs := []error{err, validate(cfg)}
	if cfg.Challenge != nil {
		var problem error
		c.challenge, problem = newChallenger(cfg)
		errs = append(errs, problem)
	}
	if cfg.Exact != nil {
		errs = append(errs, cfg.Exact.check(cfg.Tiers)...)
	}
	if cfg.LimitsFor != nil {
		errs = append(errs, cfg.LimitsFor.check()...)
	}
	if cfg.Concurrency != nil {
		errs = append(errs, cfg.Concurrency.check(cfg)...)
	}
	names := limiter.Names(cfg.Policy, cfg.Limits)
	if cfg.ByOutcome != nil {
		var problems []error
		c.late, problems = checkByOutcome(cfg, names)
		errs = append(errs, problems...)
	}
	errs = append(errs, checkUnits(cfg, names)...)
	return c, told(append(errs, c.sign(cfg))...)
}

// sign compiles what tokens carry, and the codec that signs them. Where the limits have mistakes, it checks the secrets alone.
func (c *compiled) sign(cfg *Config) (err error) {
	if c.base.tokens == nil {
		return token.CheckSecrets(cfg.Secrets)
	}
	var all []*limiter.Policy
	for _, tier := range c.tiers {
		if tier.tokens != nil && c.base.tokens.SameShape(tier.tokens) {
			all = append(all, tier.tokens)
		}
	}
	c.carried = c.base.tokens
	if cfg.Exact != nil {
		if c.carried, err = limiter.Compile(cfg.Policy, withStamp(c.base.tokens)); err != nil { // there are too many, which is told
			return token.CheckSecrets(cfg.Secrets)
		}
		for i, p := range all {
			if all[i], err = limiter.Compile(cfg.Policy, withStamp(p)); err != nil {
				return err // the base has the same shape
			}
		}
	}
	c.life = c.carried.Life()
	for _, p := range all {
		c.life = max(c.life, p.Life())
	}
	if cfg.Exact == nil && c.challenge.sellsTallies() { // tokens carry passes too
		memory := c.challenge.passTime
		c.life = max(c.life, c.base.tokens.PassLife(memory))
		for _, p := range append(slices.Clone(all), c.base.tokens) {
			all = append(all, p.Pass(memory))
		}
	}
	c.codec, err = token.New(cfg.Secrets, c.carried, all...)
	return err
}

// most is the largest Max, which a sliding log sets.
const most = exact.MaxLog

// check reports every problem of c, which has its defaults.
func (c *Concurrency) check(cfg *Config) (errs []error) {
	problem := limiter.Noting(&errs, "Concurrency.")
	if c.Max < 1 || c.Max > most {
		problem("Max", "must be from 1 to %d, not %d", most, c.Max)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tiers)) {
		if _, ok := cfg.Tiers[name]; !ok {
			problem(fmt.Sprintf("Tiers[%q]", name), "there is no such tier in Config.Tiers")
		} else if n := c.Tiers[name]; n < 1 || n > most {
			problem(fmt.Sprintf("Tiers[%q]", name), "must be from 1 to %d, not %d", most, n)
		}
	}
	if c.MaxHold < 2*time.Second || c.MaxHold > time.Hour {
		problem("MaxHold", "must be from 2 s to 1 h, or 0 for 30 s, not %s", span.Text(c.MaxHold))
	}
	if c.MaxHold%time.Second != 0 {
		problem("MaxHold", "must be whole seconds, not %s", span.Text(c.MaxHold))
	}
	return errs
}

// leases compiles the limit by which a counter leases slots. A
// slot is a charge of a sliding log, which ends by itself after MaxHold, or when it is
// given back: so a counter needs nothing else for it.
func (c *Concurrency) leases(cfg *Config, tier string) (*exact.Policy, error) {
	return exact.Compile(cfg.Policy, []storeless.Limit{
		{Name: "at-once", Quota: int64(c.maxFor(tier)), Window: c.MaxHold, Algorithm: storeless.SlidingLog},
	})
}

// checkByOutcome reports every problem of cfg.ByOutcome, and returns the places of its limits among names, in which "" may be any.
func checkByOutcome(cfg *Config, names []string) (late []int, errs []error) {
	problem := limiter.Noting(&errs, "ByOutcome")
	b := cfg.ByOutcome
	switch {
	case cfg.Exact != nil:
		problem("", "cannot go with Exact: there the counter charges each request, and Refund gives back what was not meant to count")
	case cfg.InsecureNoMemory:
		problem("", "cannot go with InsecureNoMemory: what is charged after the response would be counted nowhere")
	}
	if c := cfg.Challenge; c != nil && c.Mode != EveryRequest {
		problem("", "cannot go with a Challenge but EveryRequest: each bought tally would allow as many guesses again")
	}
	if c := cfg.Challenge; c != nil && c.WaitingRoom != 0 {
		problem("", "cannot go with a waiting room, which would be guesses for a wait; leave Challenge.WaitingRoom 0")
	}
	for _, status := range b.Free {
		if status < 200 || status > 599 {
			problem(".Free", "must be statuses of final responses, 200 to 599, not %d", status)
		}
	}
	if len(b.Limits) == 0 {
		problem(".Limits", "must name the limits that count by outcome")
	}
	inForce := 0
	for _, l := range cfg.Limits {
		if !l.Shadow {
			inForce++
		}
	}
	for i, name := range b.Limits {
		switch at := slices.Index(names, name); {
		case at < 0:
			if !slices.Contains(names, "") {
				problem(".Limits", "%q is none of %s", name, strings.Join(names, ", "))
			}
		case cfg.Limits[at].Shadow:
			problem(".Limits", "%q is a Shadow, and cannot count by outcome", name)
		case slices.Contains(b.Limits[:i], name):
			problem(".Limits", "has %q twice", name)
		default:
			late = append(late, at)
		}
	}
	if len(late) == inForce && inForce > 0 {
		problem(".Limits", "must leave out at least one: what is free would not be limited at all")
	}
	return late, errs
}

// checkUnits reports every problem of cfg.Units, as checkByOutcome does.
func checkUnits(cfg *Config, names []string) (errs []error) {
	taken := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(cfg.Units)) {
		note := limiter.Noting(&errs, fmt.Sprintf("Units[%q]", name))
		problem := func(format string, args ...any) { note("", format, args...) }
		if !limiter.ValidName(name) {
			problem("must be named by 1 to 48 of a-z, 0-9 and -")
		}
		u := cfg.Units[name]
		if len(u.Limits) == 0 {
			problem("must name the Limits that count it")
		}
		for _, l := range u.Limits {
			switch {
			case !slices.Contains(names, l) && !slices.Contains(names, ""):
				problem("has the limit %q, which is none of %s", l, strings.Join(names, ", "))
			case taken[l] == name:
				problem("has the limit %q twice", l)
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
