package middleware_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
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
	t        *testing.T
	r        *rand.Rand
	now      *clock
	mode     middleware.Mode
	tariff   middleware.Challenge
	most     int // the largest quota there is
	fleet    []*proofLife
	lives    []*proofLife // all there ever were
	stage    int
	clients  []*proofClient
	truth    count
	families map[string]*work           // that were opened
	solved   map[string]map[string]bool // proofs that bought requests, by address

	passed, refused int
}

func newProofWorld(t *testing.T, mode middleware.Mode, seed uint64) *proofWorld {
	w := &proofWorld{t: t, r: random(seed), now: new(clock), mode: mode, most: 5, truth: count{}, families: map[string]*work{}, solved: map[string]map[string]bool{}}
	w.tariff = middleware.Challenge{Mode: mode, Work: 16, Crowd: 1 + w.r.Int64N(3), BindOwn: seed%2 == 1, Path: "/tally/"}
	if mode != middleware.EveryRequest && seed%3 == 0 {
		w.tariff.SurgeBudget = 12
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
	cfg := contact(w.now)
	challenge := w.tariff
	cfg.Challenge, cfg.Carriage, cfg.Net56, cfg.Net48, cfg.Families = &challenge, middleware.Both, 1000, 1000, 4096
	cfg.Limits[0].Quota = int64(l.quota)
	// The next secret joins last everywhere, then signs; the old ones stay.
	cfg.Secrets = nil
	for i := l.stage / 2; i >= 0; i-- {
		cfg.Secrets = append(cfg.Secrets, secret(fmt.Sprint(i)))
	}
	if l.stage%2 == 1 {
		cfg.Secrets = append(cfg.Secrets, secret(fmt.Sprint(l.stage/2+1)))
	}
	return cfg
}

// restart is a cold start: the memory is gone, and with it prices and strikes.
func (w *proofWorld) restart(i int) {
	l := &proofLife{stage: w.stage, quota: 3 + w.r.IntN(w.most-2), books: newBooks()}
	if w.fleet[i] != nil {
		l.stage = w.fleet[i].stage
	}
	l.m = newLimiter(w.t, w.config(l))
	mux := http.NewServeMux()
	mux.Handle("/", l.m.Handler(new(spy)))
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
	resp := fetched(w.anywhere().h, from(c.addr))
	if resp.StatusCode == http.StatusOK {
		c.works = append(c.works, &work{Challenge: challengeIn(w.t, resp), addr: c.addr, issued: w.now.Now()})
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
		c.works[i].proof = solve(w.t, c.works[i].Challenge)
	}
	return c.works[i]
}

// redeem asks for a family's first token, once or many times.
func (w *proofWorld) redeem(c *proofClient) {
	l, p := w.anywhere(), w.anyProof(c)
	if p == nil || w.mode == middleware.EveryRequest {
		return
	}
	reason := p.reason(c.addr, w.now.Now())
	if reason == "" {
		reason = l.books.sell(p, &w.tariff)
	}
	answers := make([]*http.Response, 1+7*w.r.IntN(2))
	inParallel(len(answers), func(i int) { answers[i] = redeemed(l.h, p.proof, from(c.addr)) })
	for _, resp := range answers {
		if resp.StatusCode != http.StatusOK {
			require.Equal(w.t, reason, problemIn(w.t, resp).Reason)
			continue
		}
		require.Empty(w.t, reason)
		require.Equal(w.t, p.family(), claimsIn(w.t, tokenIn(resp)).Fam, "derived from the challenge alone")
		require.Empty(w.t, claimsIn(w.t, tokenIn(resp)).T)
		require.Equal(w.t, tokenIn(answers[0]), tokenIn(resp))
		w.families[p.family()] = p
		c.tokens = append(c.tokens, tokenIn(resp))
	}
}

// A proofAttempt is one request, and what the oracle knows of it beforehand.
type proofAttempt struct {
	life       *proofLife
	addr       string
	tokens     []string
	work       *work
	reason     middleware.Reason // why the proof is not accepted
	opened     bool              // the proof opens a family
	candidates []string          // own families that may be charged
	resp       *http.Response
}

func (w *proofWorld) attempt() *proofAttempt {
	c := w.clients[w.r.IntN(len(w.clients))]
	a := &proofAttempt{life: w.anywhere(), addr: c.addr}
	wallet := c
	if w.r.IntN(8) == 0 {
		wallet = w.clients[w.r.IntN(len(w.clients))] // stolen
	}
	if n := len(wallet.tokens); n > 0 {
		switch w.r.IntN(5) {
		case 0, 1:
			a.tokens = []string{wallet.tokens[n-1]}
		case 2: // replayed, rolled back, forked
			a.tokens = []string{wallet.tokens[w.r.IntN(n)], wallet.tokens[w.r.IntN(n)], wallet.tokens[n-1]}
		case 3:
			a.tokens = []string{wallet.tokens[w.r.IntN(n)]}
		} // or dropped
	}
	if w.r.IntN(3) == 0 || w.mode == middleware.EveryRequest && w.r.IntN(3) > 0 {
		a.work = w.anyProof(wallet)
	}
	if a.work != nil {
		if a.reason = a.work.reason(a.addr, w.now.Now()); a.reason == "" && w.mode != middleware.EveryRequest {
			a.reason = a.life.books.sell(a.work, &w.tariff)
			if a.opened = a.reason == ""; a.opened {
				w.families[a.work.family()] = a.work
			}
		}
	}
	for _, tok := range a.tokens {
		fam := claimsIn(w.t, tok).Fam
		if fam != "" && (!w.tariff.BindOwn || w.families[fam].addr == a.addr) {
			a.candidates = append(a.candidates, fam)
		}
	}
	if a.opened {
		a.candidates = []string{a.work.family()}
	}
	return a
}

func (a *proofAttempt) send() {
	options := []option{from(a.addr), showing(a.tokens...)}
	if a.work != nil {
		options = append(options, proving(a.work.proof))
	}
	a.resp = send(a.life.h, options...)
}

// keep files what came back with whoever is behind the address.
func (w *proofWorld) keep(a *proofAttempt) {
	for _, c := range w.clients {
		if tok := tokenIn(a.resp); tok != "" && c.addr == a.addr && w.r.IntN(2) == 0 {
			c.tokens = append(c.tokens, tok)
		}
	}
}

func (w *proofWorld) step() {
	w.now.advance(time.Duration(w.r.Int64N(int64(400 * time.Millisecond))))
	c := w.clients[w.r.IntN(len(w.clients))]
	switch op := w.r.IntN(60); {
	case op == 0:
		w.now.advance(time.Duration(w.r.Int64N(int64(50 * time.Second))))
	case op == 1 && len(w.lives) < 12:
		w.restart(w.r.IntN(len(w.fleet)))
	case op < 4:
		w.reconfigure()
	case op == 4:
		c.addr = proofAddresses[w.r.IntN(len(proofAddresses))]
	case op < 15:
		w.fetch(c)
	case op == 15: // stockpile
		for range 5 {
			w.fetch(c)
		}
	case op < 20:
		w.redeem(c)
	case op < 22: // the same, six times at once
		a := w.attempt()
		attempts := make([]*proofAttempt, 6)
		for i := range attempts {
			one := *a
			attempts[i] = &one
		}
		inParallel(len(attempts), func(i int) { attempts[i].send() })
		slices.SortFunc(attempts, func(a, b *proofAttempt) int { return a.resp.StatusCode - b.resp.StatusCode })
		for _, a := range attempts {
			w.audit(a)
			w.keep(a)
		}
	default:
		a := w.attempt()
		a.send()
		w.audit(a)
		w.keep(a)
	}
}

// The promises about own families and proofs, over random traces of clients who
// share addresses, solve, stockpile, redeem, drop, replay and steal, while
// instances restart, rotate secrets and change quotas.
func TestProofTraces(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 3
	}
	for name, mode := range allModes {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s/seed=%d", name, seed), func(t *testing.T) {
				w := newProofWorld(t, mode, seed)
				for range 600 {
					w.step()
				}
				w.requirePrices()
				require.Greater(t, w.passed, 30, "the workload passes")
				require.Greater(t, w.refused, 10, "and is refused")
				require.Less(t, w.now.Now().Sub(midnight), time.Hour, "all sales are remembered")
				for _, l := range w.lives {
					require.Zero(t, l.m.Saturations())
				}
			})
		}
	}
}
