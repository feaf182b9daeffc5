// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
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
	last    middleware.Decision // where requests come one after the other

	// What it sells.
	opened map[string]bool   // tallies
	spent  map[string]bool   // proofs that bought a request
	sold   map[string][]sold // by address
	shop   *limiter.Memory   // the books of a world in which all is known
	prices *sale.Prices
}

// A visitor is a client behind an address, perhaps together with others, and forgets nothing that it ever got.
type visitor struct {
	addr   string
	tokens []string
	works  []*work
}

// A setting is what may come together in a trace.
type setting struct {
	mode     middleware.Mode
	sells    bool // there is a challenge
	honest   bool // a client shows its newest token
	skewed   bool // clocks differ
	refusing bool // a policy inside refuses, also requests that are under way at once
	full     bool // the memory is tiny, and strangers fill it
}

// A shape is the limits of a client, of a network, and of a tally that is bought, with their defaults.
type shape [3][]middleware.Limit

const (
	shared = iota
	wide
	own
)

// A world is some instances that share secrets, some clients, and the log of
// all that was admitted.
type world struct {
	setting
	t       *testing.T
	r       *rand.Rand
	now     *handlers.Clock
	skew    time.Duration
	nets    int64       // Net56Factor and Net48Factor
	shapes  [2][2]shape // by variant and tier
	tariff  middleware.Challenge
	fleet   []*life
	lives   []*life            // all there ever were
	logs    map[string]history // of each tally
	clients []*visitor
	tallies map[string]*work // that were opened
	doing   middleware.Mode  // the mode, and with WhenBusy that of an instance at the moment it is asked, if that is known
	stage   int              // that all instances have reached, or are reaching
	since   time.Time        // when the last of them did

	refused, passed, inside, sales int
	calm, busy                     int // how often instances were, with WhenBusy
}

var (
	tiers = [2]string{"", "pro"}
	// addresses are two of IPv4, and three of one IPv6 /56.
	traceAddresses = []string{"203.0.113.1", "203.0.113.2", "2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1"}
)

func networksOf(addr string) []string {
	if addr[:4] == "2001" {
		return []string{"/56", "/48"}
	}
	return nil
}

// Limits of two tiers where the clocks of instances that sell differ: short windows, a day's quota beside one, a bucket,
// a window that is longer than a pass.
var skewedPolicies = [][2][]middleware.Limit{
	{{{Quota: 5, Window: time.Minute}}, {{Quota: 7, Window: time.Minute}}},
	{
		{handlers.Fixed(4, time.Minute), {Quota: 30, Window: 24 * time.Hour}},
		{handlers.Fixed(3, time.Minute), {Quota: 100, Window: 24 * time.Hour}},
	},
	{
		{{Algorithm: middleware.TokenBucket, Quota: 6, Burst: 3, Window: time.Minute}},
		{{Algorithm: middleware.TokenBucket, Quota: 6, Burst: 5, Window: time.Minute}},
	},
	{{handlers.Fixed(4, 90*time.Minute)}, {handlers.Fixed(6, 90*time.Minute)}},
}

// known says that an oracle knows what each instance decides: clocks agree, and nobody is forgotten.
func (w *world) known() bool { return !w.skewed && !w.full }

func newWorld(t *testing.T, seed uint64, s setting) *world {
	w := &world{
		setting: s, t: t, r: handlers.Random(seed), now: new(handlers.Clock), nets: 2,
		logs: map[string]history{}, tallies: map[string]*work{}, doing: s.mode,
	}
	addresses, clients, most := traceAddresses, len(traceAddresses), 4
	if s.sells {
		w.nets, clients, most = 1000, 6, 3
	}
	for variant := range w.shapes {
		for tier := range w.shapes[variant] {
			p, err := limiter.Compile("contact", w.limits(seed, variant, tier))
			require.NoError(t, err)
			w.shapes[variant][tier] = shape{limitsOf(p), limitsOf(p.Scale(w.nets)), limitsOf(p.Pass(time.Hour))}
		}
	}
	if s.skewed {
		w.skew = maxSkew(w.shapes[0][0][shared])
	}
	if s.sells {
		if w.known() {
			addresses = addresses[:3] // the one of IPv6 is alone in its networks, which are cheaper
		} else {
			w.now.Advance(24*time.Hour - time.Minute) // what a pass has does not come back at midnight
		}
		w.tariff = middleware.Challenge{Mode: s.mode, Work: 16, Crowd: 1 + w.r.Int64N(3), SalesPerHour: 4 + 9*int64(seed%5), BindOwn: seed%2 == 1, Path: "/tally/", NoWaitingRoom: true}
		if s.mode == middleware.WhenBusy {
			w.tariff.BusyPerSecond = 1
		}
	}
	for i := range clients {
		w.clients = append(w.clients, &visitor{addr: addresses[i%len(addresses)]})
	}
	for range 1 + w.r.IntN(most) {
		w.fleet = append(w.fleet, nil)
		w.restart(len(w.fleet) - 1)
	}
	return w
}

// limits are those of a variant and a tier.
func (w *world) limits(seed uint64, variant, tier int) (limits []middleware.Limit) {
	switch {
	case w.sells && w.known():
		return []middleware.Limit{handlers.Fixed(3+w.r.Int64N(3), time.Minute)}
	case w.sells:
		return skewedPolicies[seed%uint64(len(skewedPolicies))][tier]
	}
	for i, a := range [][]storeless.Algorithm{
		{storeless.SlidingWindow}, {middleware.FixedWindow}, {middleware.TokenBucket}, {storeless.LeakyBucket},
		{storeless.SlidingWindow, middleware.FixedWindow, middleware.TokenBucket},
	}[seed%5] {
		l := middleware.Limit{Algorithm: a, Quota: 2 + w.r.Int64N(6), Window: time.Duration(10+20*i) * time.Second}
		if a == middleware.TokenBucket {
			l.Burst = 1 + w.r.Int64N(2*l.Quota)
			if tier == 1 && w.r.IntN(2) == 0 { // far more than the other tier can be owed
				l.Burst *= 10
			}
		}
		limits = append(limits, l)
	}
	return limits
}

func limitsOf(p *limiter.Policy) (all []middleware.Limit) {
	for i := range p.Len() {
		all = append(all, limiter.LimitAs[middleware.Limit](p.Limit(i)))
	}
	return all
}

// owes is the most that a bucket of any tier can be owed, limit by limit, µs.
func (w *world) owes(variant, scope int) []int64 {
	most := make([]int64, len(w.shapes[variant][0][scope]))
	for _, tier := range w.shapes[variant] {
		for i, l := range tier[scope] {
			most[i] = max(most[i], l.Burst*interval(l))
		}
	}
	return most
}

func (w *world) config(l *life) middleware.Config {
	cfg := handlers.Contact(nil)
	cfg.Now = func() time.Time { return w.at(l) }
	cfg.Cost, cfg.Net56Factor, cfg.Net48Factor, cfg.MaxClients = handlers.CostOf, w.nets, w.nets, 4096
	cfg.Limits = w.shapes[l.variant][0][shared]
	cfg.Tiers = map[string][]middleware.Limit{"pro": w.shapes[l.variant][1][shared]}
	cfg.Identity = handlers.ByTier(middleware.PeerAddress)
	if w.full {
		cfg.MaxClients = 1
	}
	if w.sells {
		challenge := w.tariff
		cfg.Challenge = &challenge
	}
	if w.sells && !w.known() {
		cfg.OnDecision = func(_ context.Context, d middleware.Decision) { l.last = d }
	}
	// Stages: the new secret joins; it signs; the old one goes, if no tally that was bought needs it.
	n := l.stage / 3
	secret := func(n int) []byte { return handlers.Secret(fmt.Sprint(n)) }
	cfg.Secrets = [][][]byte{{secret(n)}, {secret(n), secret(n + 1)}, {secret(n + 1), secret(n)}}[l.stage%3]
	for older := n - 1; w.sells && older >= 0; older-- {
		cfg.Secrets = append(cfg.Secrets, secret(older))
	}
	return cfg
}

// at is the time by the clock of an instance.
func (w *world) at(l *life) time.Time { return w.now.Now().Add(l.offset) }

// restart is a cold start. It may come back with another clock.
func (w *world) restart(i int) {
	l := &life{logs: map[string]history{}, stage: w.stage, opened: map[string]bool{}, spent: map[string]bool{}, sold: map[string][]sold{}}
	if before := w.fleet[i]; before != nil {
		l.variant, l.stage = before.variant, before.stage
	}
	if w.skew > 0 {
		l.offset = time.Duration(w.r.Int64N(int64(w.skew)))
	}
	if w.sells && w.known() {
		var err error
		l.shop = limiter.NewMemory(0, 1)
		l.prices, err = sale.Tariff{Work: w.tariff.Work, Crowd: w.tariff.Crowd, SalesPerHour: w.tariff.SalesPerHour}.Compile()
		require.NoError(w.t, err)
	}
	l.m = handlers.NewLimiter(w.t, w.config(l))
	mux := http.NewServeMux()
	mux.Handle("/", l.m.Handler(refusingInside(w.t)))
	mux.Handle("/tally/", l.m.Endpoints())
	l.h = mux
	w.fleet[i] = l
	w.lives = append(w.lives, l)
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

// requote has an instance run its other quotas.
func (w *world) requote() {
	l := w.anywhere()
	l.variant = 1 - l.variant
	require.NoError(w.t, l.m.Reconfigure(w.config(l)))
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
	if w.sells && w.stage < 18 || !w.sells && (w.stage%3 != 2 || w.now.Now().Sub(w.since) > 2*50*time.Second) {
		w.stage++
	}
}

func (w *world) anywhere() *life { return w.fleet[w.r.IntN(len(w.fleet))] }

func (w *world) anybody() *visitor { return w.clients[w.r.IntN(len(w.clients))] }
