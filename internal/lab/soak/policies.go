// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// The policies that every instance has. Each is a path, and what is sold for it is below that.
const (
	windowed = "window" // a sliding window, and nothing else
	form     = "form"   // tallies are sold, which have a home, and there is a waiting room
	busy     = "busy"   // the same, where work comes first only while the instance is busy
	slow     = "slow"   // bodies, and so many at once
	paid     = "paid"   // an exact counter, FailClosed
	open     = "open"   // an exact counter, FailOpen
)

var policies = []string{windowed, form, busy, slow, paid, open}

const (
	instances  = 3
	exactQuota = 60
	atOnce     = 4
	work       = 64 // of a tally: it is a multiple of the price that counts
	perSecond  = 2  // from which an instance is busy on /busy. Ten seconds' worth are more than all but a flood send in a round
)

// quotaOf is the quota of a policy in the n-th configuration.
func quotaOf(policy string, n int) int64 {
	up := n%3 == 1
	switch {
	case policy == windowed && up:
		return 60
	case policy == windowed:
		return 40
	case policy == form && up:
		return 30
	case policy == form:
		return 27
	case policy == busy && up:
		return 24
	case policy == busy:
		return 20
	case policy == slow:
		return 10_000
	}
	return exactQuota
}

// workFirst is 1 in the configurations in which work comes first on /busy whatever the load, and 0 in the others.
func (s settings) workFirst(n int) int64 {
	if s.byLoad {
		return 0
	}
	return int64(n % 2)
}

// exact reports whether a counter decides on a policy.
func exact(policy string) bool { return policy == paid || policy == open }

// sells reports whether tallies are sold on a policy.
func sells(policy string) bool { return policy == form || policy == busy }

// configure returns the n-th configuration of a policy on an instance. Each differs from the one
// before it, in what may change while requests are served.
func (w *world) configure(policy string, instance, n int, secrets [][]byte) middleware.Config {
	limit := middleware.Limit{Name: "main", Quota: quotaOf(policy, n), Window: window * time.Second}
	if exact(policy) {
		limit.Algorithm, limit.Window = middleware.FixedWindow, time.Duration(w.clocks.exact)*time.Second
	}
	cfg := middleware.Config{
		Policy:     policy,
		Limits:     []middleware.Limit{limit},
		Secrets:    secrets,
		Identity:   w.identity,
		Instances:  1,
		MaxClients: 8192,
		OnDecision: func(ctx context.Context, d middleware.Decision) { w.decided(ctx, d) },
		Logger:     slog.New(slog.DiscardHandler),
		Now:        func() time.Time { return time.Unix(w.clocks.now(instance), 0) },
	}
	if n%2 == 1 {
		cfg.Fields = middleware.RateLimitFields | middleware.XRateLimitInSeconds
	}
	switch policy {
	case windowed:
		if n%4 >= 2 { // a limit comes, has another name, goes
			name := []string{"more", "other"}[n%2]
			cfg.Limits = append(cfg.Limits, middleware.Limit{Name: name, Quota: 1_000_000, Window: window * time.Second})
		}
		cfg.Net56Factor = int64(8 + n%2)
	case form:
		cfg.Challenge = &middleware.Challenge{Work: work, Path: "/" + form + "/tally/"}
		if n%2 == 1 {
			cfg.Challenge.Mode = middleware.Newcomers
		}
		cfg.Instances = instances
	case busy:
		cfg.Challenge = &middleware.Challenge{Work: work, Path: "/" + busy + "/tally/", Mode: middleware.WhenBusy, BusyPerSecond: perSecond}
		if w.set.workFirst(n) == 1 {
			cfg.Challenge.Mode, cfg.Challenge.BusyPerSecond = middleware.Newcomers, 0
		}
		cfg.Instances = instances
	case slow:
		cfg.Concurrency = &middleware.Concurrency{Max: atOnce, MaxHold: time.Hour, CancelHeld: n%2 == 1}
	case paid, open:
		cfg.Instances = instances
		// A busy machine is no outage: what is answered at all is answered in time.
		cfg.Exact = &middleware.Exact{Counter: w.counter, Outage: middleware.FailClosed, Deadline: time.Duration(10-n%2) * time.Second}
		if policy == open {
			cfg.Exact.Outage = middleware.FailOpen
		}
	}
	if w.set.configured != nil {
		w.set.configured(policy, &cfg)
	}
	return cfg
}

// reconfigure goes on to the next configuration, and the next step of a rotation, on every
// policy of every instance.
func (w *world) reconfigure() {
	for _, s := range w.sites {
		if s.limits[busy].Stats().Busy {
			w.busy.Add(1)
		}
	}
	w.configuration++
	n, now := w.configuration, w.clocks.right.Load()
	secrets := map[bool][][]byte{
		false: w.short.next(now, w.tokenLife(windowed, form, busy, slow)),
		true:  w.long.next(now, w.tokenLife(paid, open)),
	}
	for _, policy := range policies {
		var done []func()
		if q := w.quotas[policy]; q != nil {
			done = append(done, q.Change(quotaOf(policy, n)))
		}
		if policy == busy {
			done = append(done, w.workFirst.Change(w.set.workFirst(n)))
		}
		for i, s := range w.sites {
			if err := s.limits[policy].Reconfigure(w.configure(policy, i, n, secrets[exact(policy)])); err != nil {
				w.fail(err)
			}
		}
		for _, f := range done {
			f()
		}
	}
	w.reconfigured.Add(1)
	w.led.Store(w.short.led)
	w.dropped.Store(w.short.dropped)
}

// tokenLife is how long the tokens of some policies are good, in seconds.
func (w *world) tokenLife(of ...string) int64 {
	if w.set.life != nil {
		return w.set.life()
	}
	most := time.Duration(0)
	for _, policy := range of {
		most = max(most, w.sites[0].limits[policy].Stats().TokenLife)
	}
	return int64(most / time.Second)
}

// trusted is where every client of the soak comes from: all are behind one proxy, which is the
// soak, and names them.
var trusted = netip.MustParsePrefix("127.0.0.0/8")
