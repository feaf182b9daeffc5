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
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
)

// A buyerLife is one instance between two starts, and what it did in that time.
type buyerLife struct {
	h       http.Handler
	offset  time.Duration     // of its clock
	refused middleware.Reason // why the proof of its last request was not accepted
	reason  middleware.Reason // what became of its last request

	admitted map[string][]int64 // by tally: when, by its clock, µs
	proofs   map[string]int     // requests that each proof bought
	sold     map[string][]sold  // by address
	opened   map[string]bool    // tallies
}

// A sold is a tally that an instance has opened: when, by its clock, and for what work.
type sold struct {
	second int64
	work   float64
}

// A buyerWorld is some instances whose clocks differ, and clients that buy, drop, replay,
// fork and steal. It asks for nothing but the bounds: is a client admitted too often?
type buyerWorld struct {
	t      *testing.T
	r      *rand.Rand
	now    *handlers.Clock
	mode   middleware.Mode
	sells  bool // there is a challenge
	full   bool // the memory is tiny, and strangers fill it
	tariff middleware.Challenge
	tiers  [2][]middleware.Limit // with their defaults
	passes [2][]middleware.Limit // what an own tally of each tier may use
	skew   time.Duration
	fleet  []*buyerLife
	lives  []*buyerLife
	tokens []string
	works  []*work

	passed, refused, sales int
	wanted, free           int // requests refused for want of a proof; admitted to a shared tally
}

var buyerAddresses = []string{"203.0.113.1", "203.0.113.2", "2001:db8::1", "2001:db8:0:1::1"}

// buyerPolicies are limits of two tiers: short windows, a day's quota beside one, a bucket,
// a window that is longer than a pass.
var buyerPolicies = [][2][]middleware.Limit{
	{
		{{Quota: 5, Window: time.Minute}},
		{{Quota: 7, Window: time.Minute}},
	},
	{
		{{Algorithm: middleware.FixedWindow, Quota: 4, Window: time.Minute}, {Quota: 30, Window: 24 * time.Hour}},
		{{Algorithm: middleware.FixedWindow, Quota: 3, Window: time.Minute}, {Quota: 100, Window: 24 * time.Hour}},
	},
	{
		{{Algorithm: middleware.TokenBucket, Quota: 6, Burst: 3, Window: time.Minute}},
		{{Algorithm: middleware.TokenBucket, Quota: 6, Burst: 5, Window: time.Minute}},
	},
	{
		{{Algorithm: middleware.FixedWindow, Quota: 4, Window: 90 * time.Minute}},
		{{Algorithm: middleware.FixedWindow, Quota: 6, Window: 90 * time.Minute}},
	},
}

func newBuyerWorld(t *testing.T, seed uint64, mode middleware.Mode, sells, full bool) *buyerWorld {
	w := &buyerWorld{t: t, r: handlers.Random(seed), now: new(handlers.Clock), mode: mode, sells: sells, full: full}
	w.now.Advance(24*time.Hour - time.Minute) // what a pass has does not come back at midnight
	w.tariff = middleware.Challenge{Mode: mode, Work: 16, Crowd: 1 + w.r.Int64N(3), SalesPerHour: 4 + 9*int64(seed%5), BindOwn: seed%2 == 1, Path: "/tally/"}
	w.tariff.NoWaitingRoom = true
	if mode == middleware.WhenBusy {
		w.tariff.BusyPerSecond = 1
	}
	for i, limits := range buyerPolicies[seed%uint64(len(buyerPolicies))] {
		w.tiers[i] = filledIn(t, limits, 1)
		w.passes[i] = passOf(t, limits)
	}
	w.skew = maxSkew(w.tiers[0])
	for range 1 + w.r.IntN(3) {
		w.fleet = append(w.fleet, nil)
		w.restart(len(w.fleet) - 1)
	}
	return w
}

// passOf returns what a tally that is bought may use: the arithmetic is tested in
// internal/limiter.
func passOf(t *testing.T, limits []middleware.Limit) (all []middleware.Limit) {
	p, err := limiter.Compile("contact", limits)
	require.NoError(t, err)
	p = p.Pass(time.Hour)
	for i := range p.Len() {
		all = append(all, limiter.LimitAs[middleware.Limit](p.Limit(i)))
	}
	return all
}

// restart is a cold start with a clock of its own.
func (w *buyerWorld) restart(i int) {
	l := &buyerLife{admitted: map[string][]int64{}, proofs: map[string]int{}, sold: map[string][]sold{}, opened: map[string]bool{}}
	l.offset = time.Duration(w.r.Int64N(int64(w.skew)))
	cfg := handlers.Contact(nil)
	cfg.Now = func() time.Time { return w.now.Now().Add(l.offset) }
	cfg.Net56Factor, cfg.Net48Factor, cfg.MaxClients = 1000, 1000, 4096
	if w.full {
		cfg.MaxClients = 1
	}
	cfg.OnDecision = func(_ context.Context, d middleware.Decision) { l.refused, l.reason = d.Proof, d.Reason }
	cfg.Limits, cfg.Tiers = w.tiers[0], map[string][]middleware.Limit{"pro": w.tiers[1]}
	cfg.Identity = func(r *http.Request) (middleware.Identity, error) {
		id, err := middleware.PeerAddress(r)
		id.Tier = r.Header.Get("Tier")
		return id, err
	}
	if w.sells {
		challenge := w.tariff
		cfg.Challenge = &challenge
	}
	m := handlers.NewLimiter(w.t, cfg)
	mux := http.NewServeMux()
	mux.Handle("/", m.Handler(new(handlers.Spy)))
	mux.Handle("/tally/", m.Endpoints())
	l.h = mux
	w.fleet[i] = l
	w.lives = append(w.lives, l)
}

func (w *buyerWorld) anywhere() *buyerLife { return w.fleet[w.r.IntN(len(w.fleet))] }

func (w *buyerWorld) anyAddress() string { return buyerAddresses[w.r.IntN(len(buyerAddresses))] }

// second is the time by the clock of an instance.
func (w *buyerWorld) second(l *buyerLife) int64 { return w.now.Now().Add(l.offset).Unix() }

// fetch gets a challenge and solves it, unless it is dear.
func (w *buyerWorld) fetch(addr string) {
	resp := handlers.Fetched(w.anywhere().h, handlers.From(addr))
	if resp.Header.Get(middleware.ChallengeHeader) == "" {
		return
	}
	c := handlers.ChallengeIn(w.t, resp)
	if c.Work <= 1<<14 {
		w.works = append(w.works, &work{Challenge: c, addr: addr, issued: w.now.Now(), proof: handlers.Solve(w.t, c)})
	}
}

// anyWork picks a proof, mostly a late one of that address; nil if there is none.
func (w *buyerWorld) anyWork() *work {
	if len(w.works) == 0 {
		return nil
	}
	late := max(0, len(w.works)-1-w.r.IntN(8))
	return w.works[late]
}

// sale writes down that a tally is open on an instance.
func (w *buyerWorld) sale(l *buyerLife, c *work) {
	if l.opened[c.tally()] {
		return
	}
	l.opened[c.tally()] = true
	l.sold[c.addr] = append(l.sold[c.addr], sold{w.second(l), float64(c.Work)})
	w.sales++
	w.requirePaid(l, c.addr)
}

// redeem shows a proof to one instance, or to all.
func (w *buyerWorld) redeem() {
	c := w.anyWork()
	if c == nil || !w.sells || w.mode == middleware.EveryRequest {
		return
	}
	to := w.fleet
	if w.r.IntN(2) == 0 {
		to = []*buyerLife{w.anywhere()}
	}
	for _, l := range to {
		if resp := handlers.Redeemed(l.h, c.proof, handlers.From(c.addr)); resp.StatusCode == http.StatusOK {
			w.tokens = append(w.tokens, handlers.TokenIn(resp))
			w.sale(l, c)
		}
	}
}

// flood fills the memory: strangers come once each.
func (w *buyerWorld) flood() {
	for range 20 + w.r.IntN(100) {
		handlers.Send(w.anywhere().h, handlers.From(fmt.Sprintf("198.51.%d.%d", w.r.IntN(256), w.r.IntN(256))))
	}
}
