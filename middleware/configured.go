// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"path"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/tallystick/tallystick/internal/calendar"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
)

// goesOn reports whether the counts of a limit go on from what the policy ran with before. A counter tells apart more
// algorithms than a token, and calendars.
func (e *engine) goesOn(was *engine, i int) bool {
	counted, before := e.base.exact, was.base.exact
	switch {
	case (counted == nil) != (before == nil):
		return false
	case counted != nil:
		return slices.Contains(before.Plan().IDs[:before.Len()], counted.ID(i))
	}
	return was.base.policy.Has(e.base.policy.ID(i))
}

// logConfigured says in one line what a policy runs with, so that an operator can see whether all
// instances run with the same, and which proxies are believed. cfg has its defaults, and none of its
// secrets is told. was is what the policy ran with before; nil: nothing.
func (e *engine) logConfigured(now time.Time, cfg *Config, was *engine) {
	if !e.checks.log.Load().Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	var limits, anew []string
	for i, l := range cfg.Limits {
		if was != nil && !e.goesOn(was, i) {
			anew = append(anew, e.base.policy.Limit(i).Name)
		}
		unit := ""
		if e.base.units != nil {
			unit = e.base.units[i]
		}
		limits = append(limits, meant(l, unit))
	}
	memory := "none"
	if e.memory != nil {
		memory = fmt.Sprintf("%.1f MiB for %d clients", float64(e.memory.Size())/(1<<20), cfg.MaxClients)
	}
	args := []any{"kids", strings.Join(e.codec.KeyIDs(), ","), "limits", strings.Join(limits, ", "), "tiers", len(cfg.Tiers),
		"instances", cfg.Instances, "memory", memory, "identity", nameOf(e.hooks.identity)}
	if c := e.challenge; c != nil {
		args = append(args, "challenge", [...]string{"WhenExhausted", "WhenBusy", "Newcomers", "EveryRequest"}[c.mode], "work", c.work)
	}
	if e.exact != nil {
		args = append(args, "outage", map[Outage]string{FailOpen: "FailOpen", FailClosed: "FailClosed"}[e.exact.Outage])
	}
	if e.shadow {
		args = append(args, "shadow", true)
	}
	if len(anew) > 0 {
		args = append(args, "anew", strings.Join(anew, ","))
	}
	e.checks.write(slog.LevelInfo, configured, "", args...)
}

// logBounds says in one line what three clients get.
func (e *engine) logBounds() {
	b, figures := e.bounds()
	level, more := slog.LevelInfo, ""
	if b.Warning != "" {
		level, more = slog.LevelWarn, ": "+b.Warning
	}
	e.checks.write(level, bounds, more, append([]any{"instances", b.Instances}, figures...)...)
}

// nameOf returns the name of an identity function as its package has it. A function that believes a
// field of proxies lies inside of an exported one, so the name is the exported function's.
func nameOf(identity IdentityFunc) string {
	f := runtime.FuncForPC(reflect.ValueOf(identity).Pointer())
	if f == nil {
		return "unknown"
	}
	name, _, _ := strings.Cut(path.Base(f.Name()), ".func")
	switch { // whatever they were inlined in
	case strings.HasSuffix(name, ".believing"):
		return "a field of trusted proxies"
	case strings.HasSuffix(name, ".ValidatedKey"):
		return "middleware.ValidatedKey"
	}
	return name
}

// A limit that is never reached before another has no effect: 1000 a minute beside 10 a minute, or
// 1000 an hour beside 5 a minute. It does no harm, and is no error, since quotas change while the
// other stays; but its author meant something by it. Only certain cases are told: the bounds below
// assume the worst that the other lets through.

// warnOfIdle tells of the first limit that can never refuse, in no tier. Limits of two units never meet.
func (e *engine) warnOfIdle(now time.Time) {
	units := e.base.units
	if e.outcomes != nil || e.customLimits != nil {
		return // some limits count some of the requests, or a customer has numbers that are not known here
	}
	sets := e.limitSets()
	for j, name := range e.base.names {
		for i, by := range e.base.names {
			before := func(set limitSet) bool {
				return idle(set(j), set(i)) && (j > i || !idle(set(i), set(j))) // of two that are the same the later
			}
			if i == j || units != nil && units[i] != units[j] || name == "" || by == "" || !all(sets, before) {
				continue
			}
			e.checks.warn(now, limitIdle, "limit", e.base.limit(j).Name, "first", e.base.limit(i).Name)
			return
		}
	}
}

// warnOfFree tells of a status of failures that does not count.
func (e *engine) warnOfFree(now time.Time, b *ByOutcome) {
	for _, failed := range [...]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests} {
		if b != nil && slices.Contains(b.Free, failed) {
			e.checks.warn(now, failuresFree, "status", failed)
			return
		}
	}
}

// warnOfSecrets tells of the first secret that a program has hardly drawn at random. It is no error: a developer may
// have it so.
func (e *engine) warnOfSecrets(now time.Time, secrets [][]byte) {
	if i := slices.IndexFunc(secrets, token.Weak); i >= 0 {
		e.checks.warn(now, secretWeak, "secret", fmt.Sprintf("Secrets[%d]", i))
	}
}

// warnOfDear tells of the first tier, by name, that may never use what a route costs, or that no tier may. It does not
// panic: the quotas may stand in a file, which another person edits and a reload mends. Limits of single customers are
// not known here.
func (e *engine) warnOfDear(now time.Time, cost int64) {
	tiers := e.tiersOf()
	slices.SortFunc(tiers, func(a, b *tier) int { return strings.Compare(a.name, b.name) })
	tooDear := func(t *tier) bool { return cost > t.most() }
	i := slices.IndexFunc(tiers, tooDear)
	switch {
	case i < 0 || e.shadow:
	case e.customLimits == nil && !slices.ContainsFunc(tiers, func(t *tier) bool { return !tooDear(t) }):
		if e.checks.mayWrite(now, costAboveQuota) {
			largest := slices.MaxFunc(tiers, func(a, b *tier) int { return cmp.Compare(a.most(), b.most()) })
			e.checks.write(slog.LevelError, costAboveQuota, ", and so is everybody", "cost", cost, "largest", largest.most())
		}
	default:
		e.tellDear(now, tiers[i], cost)
	}
}

// tellPrice tells of the first limit of a tier that may never be charged what a request costs.
func (e *engine) tellPrice(now time.Time, t *tier, price limiter.Price) {
	if i := t.policy.TooDear(price); i < 0 || t.units == nil || t.units[i] == "" {
		e.tellDear(now, t, price.Cost)
	} else {
		e.checks.warn(now, costAboveQuota, "cost", price.Of(i), "largest", atOnce(t.policy.Limit(i)), "tier", t.name, "unit", t.units[i])
	}
}

// tellDear tells that a tier may never use what a request costs. The base has no name.
func (e *engine) tellDear(now time.Time, t *tier, cost int64) {
	e.checks.warn(now, costAboveQuota, "cost", cost, "largest", t.most(), "tier", t.name)
}

// minutes are windows that are over several times while a tally lives, which is an hour at least.
const minutes = 10 * time.Minute

// adviseHour tells of tallies that are sold without a limit that bounds what each is worth. Nothing is wrong: the
// configuration asks for a quota of a minute. But a tally of 5 a minute is worth 241 requests, and with 50 an hour
// beside it 50 in any hour.
func (e *engine) adviseHour(now time.Time) {
	if !e.challenge.sellsTallies() {
		return
	}
	for i, name := range e.base.names {
		if name != "" && e.base.policy.Limit(i).Window >= minutes {
			return
		}
	}
	if e.checks.mayWrite(now, hourUnlimited) {
		e.checks.write(slog.LevelInfo, hourUnlimited, "", "lives", e.challenge.passLife)
	}
}

// A limitSet tells the limits that some requests meet, by their places.
type limitSet func(i int) limiter.Limit

// limitSets returns the limits of each tier, and the parts of them that are for an outage,
// the waiting room, a pass.
func (e *engine) limitSets() (sets []limitSet) {
	for _, t := range e.tiersOf() {
		if t.exact != nil {
			sets = append(sets, func(i int) limiter.Limit { return limiter.LimitAs[limiter.Limit](t.exact.Limit(i)) })
		}
		for _, p := range []*limiter.Policy{t.policy, t.fallback} {
			if p != nil {
				sets = append(sets, p.Limit)
			}
		}
		for _, part := range []*tier{t.room, t.pass} {
			if part != nil {
				sets = append(sets, part.policy.Limit)
			}
		}
	}
	return sets
}

func all(sets []limitSet, f func(limitSet) bool) bool {
	return !slices.ContainsFunc(sets, func(set limitSet) bool { return !f(set) })
}

// idle reports whether what l has admitted never fills j. Quotas and windows are
// whole numbers far below 2⁵³: floats are exact enough to tell one from the next.
func idle(j, l limiter.Limit) bool {
	var (
		quota, most  = float64(j.Quota), float64(l.Quota)
		span, window = j.Window.Seconds() + grain(j), l.Window.Seconds()
		burst        = most // that may come at once
		rate         = most / window
	)
	if bucket(l) {
		burst = float64(atOnce(l))
		if l.Algorithm == limiter.LeakyBucket {
			burst = 1
		}
	}
	if bucket(j) { // it never empties if it holds what comes at once, and fills as fast
		holds := float64(atOnce(j))
		if j.Algorithm == limiter.LeakyBucket {
			holds = 1
		}
		if !bucket(l) {
			burst *= 2 // at the end of a window, and at the begin of the next
		}
		return holds >= burst && quota/span > rate*(1-1e-12)
	}
	if bucket(l) {
		return quota*(1+1e-12) >= burst+rate*span
	}
	nested := (j.Window%l.Window == 0 || l.Window%j.Window == 0) && j.Calendar == l.Calendar
	switch {
	case !nested || j.Algorithm > limiter.FixedWindow || l.Algorithm > limiter.FixedWindow:
		return quota >= most*(math.Ceil(2*span/window)+1) // of whatever two windows of j touch
	case j.Window <= l.Window && j.Algorithm == limiter.SlidingWindow && l.Algorithm == limiter.FixedWindow:
		return quota >= 2*most // the end of a window still weighs when the next has begun
	case j.Window <= l.Window:
		return quota >= most
	case j.Algorithm == limiter.FixedWindow:
		return quota >= most*span/window
	default:
		return quota >= most*(span/window+1)
	}
}

// bucket reports whether a limit is a rate and a burst.
func bucket(l limiter.Limit) bool {
	return l.Algorithm == limiter.TokenBucket || l.Algorithm == limiter.LeakyBucket
}

// grain is for how many seconds more than its window a limit counts.
func grain(l limiter.Limit) float64 {
	switch {
	case l.Algorithm == limiter.RollingDay:
		return 60
	case l.Calendar != "":
		return (calendar.Longest(l.Calendar) - l.Window).Seconds()
	}
	return 0
}

// Two middlewares of one policy count apart: a client of both gets the limit twice, as from two
// machines. No request tells that they are in one process, unless it passes both (policy-twice),
// and a mark in tokens would be on the wire for the sake of a mistake at home. So a table that
// outlives both has to know of both. It is the one thing that the package remembers beside its
// values. It decides nothing, and its pointers are weak: it keeps no middleware. One that was
// dropped counts until it is collected: until then it may be in use, and its counts are lost either
// way, which Reconfigure would have kept.
var inUse register

// A register knows the middlewares of a process that are in use.
type register struct {
	mu  sync.Mutex
	all []entry
}

// An entry is a middleware of a policy among all that log to one logger. Tests, and fleets that are played
// in one process, have loggers of their own.
type entry struct {
	policy string
	log    weak.Pointer[slog.Logger]
	of     weak.Pointer[checks]
}

// second adds the middleware that checks are of, strikes those that are gone, and reports whether
// it is the second of its policy.
func (r *register) second(of *checks) bool {
	log := of.log.Load()
	if !log.Enabled(context.Background(), slog.LevelWarn) {
		return false // no log would tell of it
	}
	e, others := entry{of.policy, weak.Make(log), weak.Make(of)}, 0
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.DeleteFunc(r.all, func(known entry) bool { return known.of.Value() == nil })
	for _, known := range r.all {
		if known.policy == e.policy && known.log == e.log {
			others++
		}
	}
	r.all = append(r.all, e)
	return others == 1
}
