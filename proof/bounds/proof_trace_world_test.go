// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
)

var proofAddresses = []string{"203.0.113.1", "203.0.113.2", "2001:db8::1"}

// A proofLife is one instance between two starts.
type proofLife struct {
	m     *middleware.Middleware
	h     http.Handler
	stage int // of the rotation
	quota int
	books *books
}

// A proofClient is behind one of the addresses, together with others, and forgets
// nothing that it ever got.
type proofClient struct {
	addr   string
	tokens []string
	works  []*work
}

// A proofWorld is some instances, some clients, and the truth about them.
type proofWorld struct {
	t       *testing.T
	r       *rand.Rand
	now     *handlers.Clock
	mode    middleware.Mode
	tariff  middleware.Challenge
	most    int // the largest quota there is
	fleet   []*proofLife
	lives   []*proofLife // all there ever were
	stage   int
	clients []*proofClient
	truth   count
	tallies map[string]*work           // that were opened
	solved  map[string]map[string]bool // proofs that bought requests, by address

	passed, refused int

	// With WhenBusy the mode is that of the instance at the moment it is asked.
	whenBusy   bool
	calm, busy int // how often it was
}

func newProofWorld(t *testing.T, mode middleware.Mode, seed uint64) *proofWorld {
	w := &proofWorld{t: t, r: handlers.Random(seed), now: new(handlers.Clock), mode: mode, most: 5, truth: count{}, tallies: map[string]*work{}, solved: map[string]map[string]bool{}}
	w.tariff = middleware.Challenge{Mode: mode, Work: 16, Crowd: 1 + w.r.Int64N(3), SalesPerHour: 4 + 9*int64(seed%5), BindOwn: seed%2 == 1, Path: "/tally/"}
	if mode == middleware.WhenBusy {
		w.tariff.BusyPerSecond, w.whenBusy = 1, true
	}
	for range 1 + w.r.IntN(3) {
		w.fleet = append(w.fleet, nil)
		w.restart(len(w.fleet) - 1)
	}
	for i := range 6 {
		w.clients = append(w.clients, &proofClient{addr: proofAddresses[i%len(proofAddresses)]})
	}
	for _, addr := range proofAddresses {
		w.solved[addr] = map[string]bool{}
	}
	return w
}

func (w *proofWorld) window() int64 { return w.now.Now().Unix() / 60 }

func (w *proofWorld) config(l *proofLife) middleware.Config {
	cfg := handlers.Contact(w.now)
	challenge := w.tariff
	cfg.Challenge, cfg.Net56Factor, cfg.Net48Factor, cfg.MaxClients = &challenge, 1000, 1000, 4096
	cfg.Limits[0].Quota = int64(l.quota)
	// The next secret joins last everywhere, then signs; the old ones stay.
	cfg.Secrets = nil
	for i := l.stage / 2; i >= 0; i-- {
		cfg.Secrets = append(cfg.Secrets, handlers.Secret(fmt.Sprint(i)))
	}
	if l.stage%2 == 1 {
		cfg.Secrets = append(cfg.Secrets, handlers.Secret(fmt.Sprint(l.stage/2+1)))
	}
	return cfg
}

// restart is a cold start: the memory is gone, and with it prices and strikes.
func (w *proofWorld) restart(i int) {
	l := &proofLife{stage: w.stage, quota: 3 + w.r.IntN(w.most-2), books: newBooks(&w.tariff)}
	if w.fleet[i] != nil {
		l.stage = w.fleet[i].stage
	}
	l.m = handlers.NewLimiter(w.t, w.config(l))
	mux := http.NewServeMux()
	mux.Handle("/", l.m.Handler(new(handlers.Spy)))
	mux.Handle("/tally/", l.m.Endpoints())
	l.h = mux
	w.fleet[i] = l
	w.lives = append(w.lives, l)
}

// reconfigure changes an instance's quota, or takes it a step further in the
// rotation of secrets.
func (w *proofWorld) reconfigure() {
	i := slices.IndexFunc(w.fleet, func(l *proofLife) bool { return l.stage < w.stage })
	switch {
	case i >= 0:
		w.fleet[i].stage++
	case w.stage < 12 && w.r.IntN(2) == 0:
		w.stage++
		return
	default:
		i = w.r.IntN(len(w.fleet))
		w.fleet[i].quota = 3 + w.r.IntN(w.most-2)
	}
	require.NoError(w.t, w.fleet[i].m.Reconfigure(w.config(w.fleet[i])))
}

// fetch gets a challenge, for now or for the stock.
func (w *proofWorld) fetch(c *proofClient) {
	resp := handlers.Fetched(w.anywhere().h, handlers.From(c.addr))
	if resp.Header.Get(middleware.ChallengeHeader) != "" {
		c.works = append(c.works, &work{Challenge: handlers.ChallengeIn(w.t, resp), addr: c.addr, issued: w.now.Now()})
	}
}

func (w *proofWorld) anywhere() *proofLife { return w.fleet[w.r.IntN(len(w.fleet))] }

// anyProof picks a proof of a client's, mostly a late one, and solves it if need
// be; nil if there is none.
func (w *proofWorld) anyProof(c *proofClient) *work {
	if len(c.works) == 0 {
		return nil
	}
	i := len(c.works) - 1
	if w.r.IntN(2) == 0 {
		i = w.r.IntN(len(c.works))
	}
	if c.works[i].proof == "" {
		c.works[i].proof = handlers.Solve(w.t, c.works[i].Challenge)
	}
	return c.works[i]
}

// redeem asks for a tally's first token, once or many times.
func (w *proofWorld) redeem(c *proofClient) {
	l, p := w.anywhere(), w.anyProof(c)
	if p == nil || w.mode == middleware.EveryRequest {
		return
	}
	reason := p.reason(c.addr, w.now.Now())
	if reason == "" {
		reason = l.books.sell(p, &w.tariff, w.now.Now())
	}
	answers := make([]*http.Response, 1+7*w.r.IntN(2))
	handlers.InParallel(len(answers), func(i int) { answers[i] = handlers.Redeemed(l.h, p.proof, handlers.From(c.addr)) })
	for _, resp := range answers {
		if resp.StatusCode != http.StatusOK {
			require.Equal(w.t, reason, handlers.ProblemIn(w.t, resp).Reason)
			continue
		}
		require.Empty(w.t, reason)
		claims := handlers.ClaimsIn(w.t, handlers.TokenIn(resp))
		require.Equal(w.t, p.tally(), claims.Fam, "derived from the challenge alone")
		require.Equal(w.t, p.ends(), claims.Exp, "and so is its end")
		require.Empty(w.t, claims.T)
		require.Equal(w.t, handlers.TokenIn(answers[0]), handlers.TokenIn(resp))
		w.tallies[p.tally()] = p
		c.tokens = append(c.tokens, handlers.TokenIn(resp))
	}
}
