// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
)

// shown are the tokens that a client shows: the newest, if it is honest.
func (w *world) shown(c *visitor) []string {
	n := len(c.tokens)
	if n == 0 {
		return nil
	}
	newest, any := c.tokens[n-1], func() string { return c.tokens[w.r.IntN(n)] }
	if w.honest {
		return []string{newest}
	}
	switch w.r.IntN(6) {
	case 0:
		return []string{newest}
	case 1: // replay, roll back
		return []string{any()}
	case 2: // fork
		return []string{any(), any(), newest}
	case 3: // steal
		if other := w.anybody(); len(other.tokens) > 0 {
			return []string{other.tokens[w.r.IntN(len(other.tokens))]}
		}
	case 4:
		if w.sells { // there are more thieves and fewer that forge
			return []string{newest}
		}
		return []string{newest[:len(newest)-4] + "AAAA"}
	}
	return nil // drop
}

// An attempt is one request, and what an oracle knows of it beforehand.
type attempt struct {
	life   *life
	addr   string
	tier   int
	cost   int64
	tokens []string
	inside bool // a policy inside refuses it, if this one does not
	asked  bool // outside of HTTP, by Decide

	work       *work
	reason     middleware.Reason // why the proof is not accepted
	opened     bool              // the proof opens a tally
	candidates []string          // own tallies that may be charged

	resp *http.Response
}

func (w *world) attempt() *attempt {
	c := w.anybody()
	a := &attempt{life: w.anywhere(), addr: c.addr, cost: 1, tokens: w.shown(c), tier: w.r.IntN(12) / 8}
	if !w.sells {
		if w.r.IntN(6) == 0 {
			a.cost = w.r.Int64N(4)
		}
		a.inside, a.asked = w.r.IntN(3) == 0, w.r.IntN(4) == 0 && a.cost > 0
		return a
	}
	w.look(a)
	if w.r.IntN(3) == 0 || w.mode == middleware.EveryRequest && w.r.IntN(3) > 0 {
		if w.r.IntN(8) == 0 {
			c = w.anybody() // a stolen one
		}
		a.work = w.anyProof(c)
	}
	if a.work != nil && w.known() {
		a.reason = w.expected(a.life, a.work, a.addr)
		a.opened = a.reason == "" && w.mode != middleware.EveryRequest
	}
	for _, tok := range a.tokens {
		own := handlers.ClaimsIn(w.t, tok).Fam
		if own != "" && (!w.tariff.BindOwn || w.tallies[own].addr == a.addr) {
			a.candidates = append(a.candidates, own)
		}
	}
	if a.opened {
		a.candidates = []string{a.work.tally()}
	}
	return a
}

// look has the world expect what the instance does now, where that depends on its load.
func (w *world) look(a *attempt) {
	if w.mode != middleware.WhenBusy || !w.known() {
		return
	}
	neighbour := handlers.Address("203.0.254.1") // of the same network: it has sent nothing, and is refused only where work comes first
	if strings.Contains(a.addr, ":") {
		neighbour = handlers.Address("2001:db8:7::1")
	}
	peeked, err := a.life.m.Decide(w.t.Context(), middleware.Ask{Identity: neighbour, DryRun: true})
	require.NoError(w.t, err)
	if w.doing = middleware.WhenExhausted; !peeked.Admitted {
		w.doing = middleware.Newcomers
		w.busy++
	} else {
		w.calm++
	}
}

func (a *attempt) send(t *testing.T) {
	if a.asked {
		ask := middleware.Ask{Identity: handlers.Address(a.addr), Cost: a.cost, Tokens: a.tokens, DryRun: true}
		if ask.Identity.Tier = tiers[a.tier]; a.cost == 1 {
			ask.Cost = 0 // which is the same
		}
		handlers.Decided(t, a.life.m, ask) // which counts nothing
		ask.DryRun = false
		answer := handlers.Decided(t, a.life.m, ask)
		a.resp = &http.Response{StatusCode: answer.Status, Header: http.Header{}}
		if answer.Allowed {
			a.resp.StatusCode = http.StatusOK
		}
		a.resp.Header.Set(middleware.TokenHeader, answer.Token())
		return
	}
	options := []handlers.Option{handlers.From(a.addr), handlers.With("Tier", tiers[a.tier], "Inside", strconv.FormatBool(a.inside)), handlers.Costing(a.cost), handlers.Showing(a.tokens...)}
	if a.work != nil {
		options = append(options, handlers.Proving(a.work.proof))
	}
	a.resp = handlers.Send(a.life.h, options...)
}

// settle files what came back, writes the request into the logs, and checks the bounds.
func (w *world) settle(a *attempt) {
	bought, passed := "", a.resp.StatusCode == http.StatusOK
	if tok := handlers.TokenIn(a.resp); tok != "" {
		bought = handlers.ClaimsIn(w.t, tok).Fam
		for _, c := range w.clients {
			if c.addr == a.addr && (!w.sells || w.r.IntN(2) == 0) {
				c.tokens = append(c.tokens, tok)
			}
		}
	}
	if w.sells {
		w.requireSold(a, bought, passed)
	} else {
		for _, network := range networksOf(a.addr) {
			w.log(a, passed, network, wide, "a network gets more than its quota")
		}
	}
	if passed && a.cost > 0 {
		w.passed++
	}
	if passed && bought != "" {
		w.log(a, passed, bought, own, "an instance admits more than a quota to a tally")
	} else {
		w.log(a, passed, a.addr, shared, "an instance admits more than a quota")
	}
}

// log writes a request into the log of a tally or network. If it was admitted, the bound must hold, by the log of the instance and, of an
// honest client, by all of them.
func (w *world) log(a *attempt, passed bool, name string, scope int, what string) {
	e := event{w.at(a.life).UnixMicro(), a.cost, w.shapes[a.life.variant][a.tier][scope], w.owes(a.life.variant, scope), a.life, a.resp.StatusCode == insideRefuses}
	if !passed {
		e.cost = 0
	}
	w.logs[name] = append(w.logs[name], e)
	a.life.logs[name] = append(a.life.logs[name], e)
	if e.cost > 0 {
		w.requireBound(a.life.logs[name], scope, what)
		if w.honest && scope == shared {
			w.requireBound(w.logs[name], scope, "an honest client gets more than a quota from the fleet")
		}
	}
}

// requireSold checks which tally is charged, and with which proof.
func (w *world) requireSold(a *attempt, bought string, passed bool) {
	t, l := w.t, a.life
	if !w.known() && a.work != nil && l.last.Proof == "" && bought == a.work.tally() {
		w.sale(l, a.work)
	}
	if !passed {
		if l.last.Reason == middleware.NoToken {
			w.busy++
		}
		return
	}
	switch {
	case w.mode == middleware.EveryRequest:
		require.Empty(t, bought)
		require.NotNil(t, a.work, "no proof")
		require.Empty(t, a.reason)
		require.False(t, l.spent[a.work.Text], "a proof bought two requests of one instance")
		l.spent[a.work.Text] = true
	case bought != "":
		buyer := w.tallies[bought]
		require.NotNil(t, buyer, "a tally that nobody bought")
		if w.known() {
			require.Contains(t, a.candidates, bought, "somebody else's tally")
			require.Equal(t, buyer.ends(), handlers.ClaimsIn(t, handlers.TokenIn(a.resp)).Exp, "a tally that lives on")
		}
	default:
		require.NotEqual(t, middleware.Newcomers, w.doing, "nothing is free here")
		require.False(t, a.opened, "the proof's tally is charged")
		if !w.known() {
			w.calm++
		}
	}
}

// requireBound checks the bound at the last event of a history. Where clocks
// differ it is that of the aligned window, under the largest quota there is.
func (w *world) requireBound(h history, scope int, what string) {
	last := h[len(h)-1]
	for i, l := range last.limits {
		if w.known() || bucket(l) && !w.sells && !w.full {
			require.True(w.t, h.mayPass(i), "%s: %+v", what, l)
			continue
		}
		most, owes, step := int64(0), int64(0), int64(math.MaxInt64)
		for _, tiers := range w.shapes {
			for _, shape := range tiers {
				l := shape[scope][i]
				if most = max(most, l.Quota); bucket(l) {
					owes, step = max(owes, l.Burst*interval(l)), min(step, interval(l))
				}
			}
		}
		used := int64(0)
		switch {
		case bucket(l):
			h.requireSpans(w.t, owes, step)
		case scope == own && l.Window > time.Hour: // a pass never gets back what it has of a long limit
			used = h.inAll()
		default:
			used = h.inCore(l, last.at/l.Window.Microseconds(), w.skew.Microseconds())
		}
		require.LessOrEqual(w.t, used, most, "%s: %+v", what, l)
	}
}

// requireReason checks that a refused request deserves it. A tally, or one of its networks, is over a
// limit: by all that was ever admitted, not just by what the instance knows.
func (w *world) requireReason(a *attempt) {
	switch {
	case a.resp.StatusCode == http.StatusOK:
		return
	case a.resp.StatusCode == insideRefuses:
		w.inside++
		return
	}
	w.refused++
	switch {
	case w.refusing || w.full || w.sells && w.skewed:
	case w.sells:
		w.requireRefusal(a)
	default:
		w.requireOver(a, a.addr, shared)
	}
}

// requireOver checks that a tally, or a network of the client, is over a limit.
func (w *world) requireOver(a *attempt, tally string, scope int) {
	at, skew := w.at(a.life).UnixMicro(), w.skew.Microseconds()
	shape := w.shapes[a.life.variant][a.tier]
	for i, l := range shape[scope] {
		if !w.logs[tally].mustPass(i, l, at, a.cost, skew) {
			return
		}
		for _, network := range networksOf(a.addr) {
			if !a.life.logs[network].mustPass(i, shape[wide][i], at, a.cost, skew) {
				return
			}
		}
	}
	require.Fail(w.t, "a tally under its limit is refused", "%s of %s, cost %d: %s", tally, a.addr, a.cost, a.resp.Header.Get("RateLimit"))
}

// requireRefusal checks the reason of a refusal, and what it offers.
func (w *world) requireRefusal(a *attempt) {
	t, l, p := w.t, a.life, handlers.ProblemIn(w.t, a.resp)
	price := l.prices.Quote(w.now.Now(), l.shop, l.buyers(a.addr)).Price
	require.NotEqual(t, middleware.SoldOut, p.Reason)
	if a.resp.Header.Get(middleware.ChallengeHeader) != "" && w.mode != middleware.EveryRequest {
		require.GreaterOrEqual(t, p.Work, price, "offered below the price")
	} else {
		require.NotEqual(t, middleware.Newcomers, w.doing, "nothing is offered")
	}
	if a.reason != "" && p.Reason != "replayed" {
		require.Equal(t, a.reason, p.Reason)
	}
	switch {
	case w.mode == middleware.EveryRequest && a.resp.StatusCode == http.StatusTooManyRequests:
		w.requireOver(a, a.addr, shared)
	case w.mode == middleware.EveryRequest:
		good := a.work != nil && a.reason == ""
		require.True(t, !good || l.spent[a.work.Text], "a good proof, not spent here, and refused")
	case w.doing == middleware.Newcomers && len(a.candidates) == 0:
		require.Contains(t, []middleware.Reason{middleware.NoToken, middleware.SoldOut, a.reason}, p.Reason)
	default:
		for _, tally := range a.candidates {
			w.requireOver(a, tally, own)
		}
		if w.doing == middleware.WhenExhausted && !a.opened {
			w.requireOver(a, a.addr, shared)
		}
	}
}

// together sends six requests at once: any, or, where proofs are redeemed, the same one. Those that were admitted are settled first.
func (w *world) together() {
	attempts, one := make([]*attempt, 6), w.attempt()
	for i := range attempts {
		same := *one
		if attempts[i] = &same; !w.sells {
			attempts[i] = w.attempt()
		}
		attempts[i].tier = one.tier // the log knows no order among them
		// Until it is refused inside, a request counts: in what others are refused for, and in their tokens. See docs/bounds.md.
		attempts[i].inside = attempts[i].inside && w.refusing
	}
	handlers.InParallel(len(attempts), func(i int) { attempts[i].send(w.t) })
	slices.SortStableFunc(attempts, func(a, b *attempt) int { return a.resp.StatusCode - b.resp.StatusCode })
	for _, a := range attempts {
		w.settle(a)
	}
	for _, a := range attempts {
		w.requireReason(a)
	}
}

// once sends one request.
func (w *world) once() {
	a := w.attempt()
	a.send(w.t)
	if w.sells {
		w.settle(a)
		w.requireReason(a)
		return
	}
	w.requireReason(a)
	w.settle(a)
}

func (w *world) step() {
	w.now.Advance(time.Duration(w.r.Int64N(int64(300 * time.Millisecond))))
	switch op := w.r.IntN(40); {
	case op == 0:
		w.now.Advance(time.Duration(w.r.Int64N(int64(40 * time.Second))))
	case op == 1 && len(w.lives) < 12:
		w.restart(w.r.IntN(len(w.fleet)))
	case op == 2:
		w.requote()
	case op == 3:
		w.rotate()
	case op == 4 && w.full:
		w.flood()
	case op < 6 && !w.honest && (w.known() || !w.sells) && w.mode != middleware.WhenBusy: // an instance may become busy in between
		w.together()
	case op < 15 && w.sells:
		w.trade(op)
	default:
		w.once()
	}
}

// trade is what happens only where tallies are sold.
func (w *world) trade(op int) {
	c := w.anybody()
	switch {
	case op == 6 && w.known():
		c.addr = w.clients[w.r.IntN(len(w.clients))].addr
	case op == 7 && !w.known() && w.r.IntN(3) == 0:
		w.now.Advance(time.Duration(w.r.Int64N(int64(3 * time.Hour))))
	case op == 7: // stockpile
		for range 5 {
			w.fetch(c)
		}
	case op < 12:
		w.fetch(c)
	default:
		w.redeem(c)
	}
}

// The promise of the whole library, over random traces of requests, dropped,
// replayed, forked, stolen and forged tokens, restarts, changed quotas and
// tiers, rotated secrets, clocks that differ, requests in parallel, requests that a policy inside refuses, and others that are
// asked about outside of HTTP.
func TestTraces(t *testing.T) {
	for mode, s := range map[string]setting{"hostile": {}, "skewed": {skewed: true}, "honest": {honest: true}, "refusing": {refusing: true}} {
		for seed := range uint64(10) {
			t.Run(fmt.Sprintf("%s/seed=%d", mode, seed), func(t *testing.T) {
				w := played(t, seed, s, 250)
				require.Greater(t, w.inside, 10, "and inside")
			})
		}
	}
}

// played plays a trace.
func played(t *testing.T, seed uint64, s setting, steps int) *world {
	w := newWorld(t, seed, s)
	for range steps {
		w.step()
	}
	require.Greater(t, w.refused, 10, "the workload is refused")
	if s.full {
		return w
	}
	require.Greater(t, w.passed, 30, "and passes")
	for _, l := range w.lives {
		require.Zero(t, l.m.Stats().Saturations)
	}
	return w
}

// selling are all modes, by name.
func selling() map[string]middleware.Mode {
	modes := maps.Clone(handlers.AllModes)
	modes["WhenBusy"] = middleware.WhenBusy
	return modes
}

// The promises about own tallies and proofs, over random traces of clients that
// share addresses, solve, stockpile, redeem, drop, replay and steal, while
// instances restart, rotate secrets and change quotas. All that is refused, and why, is known beforehand.
func TestProofTraces(t *testing.T) {
	seeds := uint64(12)
	if !kit.Whole() {
		seeds = 2
	}
	calm, busy := 0, 0
	for name, mode := range selling() {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s/seed=%d", name, seed), func(t *testing.T) {
				w := played(t, seed, setting{mode: mode, sells: true}, 600)
				require.Less(t, w.now.Now().Sub(handlers.Midnight), time.Hour, "all sales are remembered")
				calm, busy = calm+w.calm, busy+w.busy
			})
		}
	}
	require.Greater(t, calm, 100, "calm instances")
	require.Greater(t, busy, 20, "and busy ones")
}

// The bounds of docs/bounds.md, and nothing else, under all that may come together: several
// instances that start anew, clocks that differ within what is permitted, tiers, a memory
// that is full, and clients that work, and drop, replay, fork and steal tokens. It looks at
// no state inside, so that it holds for every rule that keeps the promises.
func TestBoundsUnderAttack(t *testing.T) {
	seeds := uint64(16)
	if kit.Brief() {
		seeds = 2
	}
	calm, busy := 0, 0
	modes := selling()
	modes["none"] = middleware.WhenExhausted
	for name, mode := range modes {
		for _, full := range []bool{false, true} {
			for seed := range seeds {
				t.Run(fmt.Sprintf("%s/full=%t/seed=%d", name, full, seed), func(t *testing.T) {
					w := played(t, seed, setting{mode: mode, sells: name != "none", skewed: true, full: full}, 600)
					if mode == middleware.WhenBusy {
						calm, busy = calm+w.calm, busy+w.busy
					}
					if !full && w.sells && mode != middleware.EveryRequest {
						require.Greater(t, w.sales, 10, "and buys")
					}
				})
			}
		}
	}
	require.Greater(t, busy, 100, "busy instances")
	require.Greater(t, calm, 100, "and calm ones")
}
