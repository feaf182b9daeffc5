// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/storeless"
)

// A life is one instance between two starts: all it ever remembered.
type life struct {
	m       *middleware.Middleware
	h       http.Handler
	variant int           // of the quotas that it runs
	stage   int           // of the rotation that it has reached
	offset  time.Duration // of its clock
	logs    map[string]history
}

// A world is some instances that share secrets, some clients, and the log of
// all that was admitted.
type world struct {
	t       *testing.T
	r       *rand.Rand
	mode    string
	now     *handlers.Clock
	skew    time.Duration
	shapes  [2][2][]middleware.Limit // by variant and tier, defaults filled in
	fleet   []*life
	logs    map[string]history // of each tally
	wallets map[string][]string
	stage   int       // that all instances have reached, or are reaching
	since   time.Time // when the last of them did

	refused, passed, inside int
}

const nets = 2 // Net56Factor and Net48Factor of every trace

var tiers = [2]string{"", "pro"}

// clients are two addresses, and three of one IPv6 /56.
var clients = []string{"203.0.113.1", "203.0.113.2", "2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1"}

func networksOf(addr string) []string {
	if addr[:4] == "2001" {
		return []string{"/56", "/48"}
	}
	return nil
}

func newWorld(t *testing.T, seed uint64, mode string) *world {
	w := &world{t: t, r: handlers.Random(seed), mode: mode, now: new(handlers.Clock), logs: map[string]history{}, wallets: map[string][]string{}}
	algorithms := [][]storeless.Algorithm{
		{storeless.SlidingWindow}, {middleware.FixedWindow}, {middleware.TokenBucket}, {storeless.LeakyBucket},
		{storeless.SlidingWindow, middleware.FixedWindow, middleware.TokenBucket},
	}[seed%5]
	for variant := range w.shapes {
		for tier := range w.shapes[variant] {
			var limits []middleware.Limit
			for i, a := range algorithms {
				l := middleware.Limit{Algorithm: a, Quota: 2 + w.r.Int64N(6), Window: time.Duration(10+20*i) * time.Second}
				if a == middleware.TokenBucket {
					l.Burst = 1 + w.r.Int64N(2*l.Quota)
					if tier == 1 && w.r.IntN(2) == 0 { // far more than the other tier can be owed
						l.Burst *= 10
					}
				}
				limits = append(limits, l)
			}
			w.shapes[variant][tier] = filledIn(t, limits, 1)
		}
	}
	if mode == "skewed" {
		w.skew = maxSkew(w.shapes[0][0])
	}
	for range 1 + w.r.IntN(4) {
		w.fleet = append(w.fleet, nil)
		w.restart(len(w.fleet) - 1)
	}
	return w
}

// filledIn returns limits with their defaults, times a factor.
func filledIn(t *testing.T, limits []middleware.Limit, factor int64) (all []middleware.Limit) {
	p, err := limiter.Compile("contact", limits)
	require.NoError(t, err)
	p = p.Scale(factor)
	for i := range p.Len() {
		all = append(all, limiter.LimitAs[middleware.Limit](p.Limit(i)))
	}
	return all
}

// owes is the most that a bucket of any tier can be owed, limit by limit, µs.
func (w *world) owes(variant int, factor int64) []int64 {
	most := make([]int64, len(w.shapes[variant][0]))
	for _, limits := range w.shapes[variant] {
		for i, l := range filledIn(w.t, limits, factor) {
			most[i] = max(most[i], l.Burst*interval(l))
		}
	}
	return most
}

func (w *world) config(l *life) middleware.Config {
	cfg := handlers.Contact(nil)
	cfg.Now = func() time.Time { return w.now.Now().Add(l.offset) }
	cfg.Cost, cfg.Net56Factor, cfg.Net48Factor = handlers.CostOf, nets, nets
	cfg.Limits = w.shapes[l.variant][0]
	cfg.Tiers = map[string][]middleware.Limit{"pro": w.shapes[l.variant][1]}
	cfg.Identity = func(r *http.Request) (middleware.Identity, error) {
		id, err := middleware.PeerAddress(r)
		id.Tier = r.Header.Get("Tier")
		return id, err
	}
	// Stages: the new secret joins; it signs; the old one goes.
	old, next := handlers.Secret(fmt.Sprint(l.stage/3)), handlers.Secret(fmt.Sprint(l.stage/3+1))
	cfg.Secrets = [][][]byte{{old}, {old, next}, {next, old}}[l.stage%3]
	return cfg
}

// restart is a cold start. It may come back with another clock.
func (w *world) restart(i int) {
	l := &life{logs: map[string]history{}, stage: w.stage}
	if before := w.fleet[i]; before != nil {
		l.variant, l.stage = before.variant, before.stage
	}
	if w.skew > 0 {
		l.offset = time.Duration(w.r.Int64N(int64(w.skew)))
	}
	l.m = handlers.NewLimiter(w.t, w.config(l))
	l.h = l.m.Handler(refusingInside(w.t))
	w.fleet[i] = l
}

// insideRefuses is how refusingInside refuses.
const insideRefuses = http.StatusTeapot

// refusingInside is a policy that refuses what says so, and counts nothing.
func refusingInside(t *testing.T) http.Handler {
	cfg := handlers.Contact(new(handlers.Clock))
	cfg.Policy, cfg.TokenTransport = "inside", middleware.MemoryOnly
	cfg.Cost = func(r *http.Request) int64 {
		if r.Header.Get("Inside") == "true" {
			return cfg.Limits[0].Quota + 1
		}
		return 0
	}
	cfg.RefusalHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(insideRefuses) })
	return handlers.NewLimiter(t, cfg).Handler(new(handlers.Spy))
}

// rotate moves one instance to the next stage. No secret goes before two of the
// longest windows have passed, so that nobody loses a token over it.
func (w *world) rotate() {
	for _, l := range w.fleet {
		if l.stage < w.stage {
			l.stage++
			require.NoError(w.t, l.m.Reconfigure(w.config(l)))
			w.since = w.now.Now()
			return
		}
	}
	if w.stage%3 != 2 || w.now.Now().Sub(w.since) > 2*50*time.Second {
		w.stage++
	}
}
