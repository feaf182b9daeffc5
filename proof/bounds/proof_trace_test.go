// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
)

// A proofAttempt is one request, and what the oracle knows of it beforehand.
type proofAttempt struct {
	life       *proofLife
	addr       string
	tokens     []string
	work       *work
	reason     middleware.Reason // why the proof is not accepted
	opened     bool              // the proof opens a tally
	candidates []string          // own tallies that may be charged
	resp       *http.Response
}

func (w *proofWorld) attempt() *proofAttempt {
	c := w.clients[w.r.IntN(len(w.clients))]
	a := &proofAttempt{life: w.anywhere(), addr: c.addr}
	w.setMode(a.life, a.addr)
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
			a.reason = a.life.books.sell(a.work, &w.tariff, w.now.Now())
			if a.opened = a.reason == ""; a.opened {
				w.tallies[a.work.tally()] = a.work
			}
		}
	}
	for _, tok := range a.tokens {
		fam := handlers.ClaimsIn(w.t, tok).Fam
		if fam != "" && (!w.tariff.BindOwn || w.tallies[fam].addr == a.addr) {
			a.candidates = append(a.candidates, fam)
		}
	}
	if a.opened {
		a.candidates = []string{a.work.tally()}
	}
	return a
}

// setMode has the world expect what the instance does now, where that depends on its load.
func (w *proofWorld) setMode(l *proofLife, addr string) {
	if !w.whenBusy {
		return
	}
	neighbour := handlers.Address("203.0.254.1") // of the same network: it has sent nothing, and is refused only where work comes first
	if strings.Contains(addr, ":") {
		neighbour = handlers.Address("2001:db8:7::1")
	}
	peeked, err := l.m.Decide(w.t.Context(), middleware.Ask{Identity: neighbour, DryRun: true})
	require.NoError(w.t, err)
	if w.mode = middleware.WhenExhausted; !peeked.Admitted {
		w.mode = middleware.Newcomers
		w.busy++
	} else {
		w.calm++
	}
}

func (a *proofAttempt) send() {
	options := []handlers.Option{handlers.From(a.addr), handlers.Showing(a.tokens...)}
	if a.work != nil {
		options = append(options, handlers.Proving(a.work.proof))
	}
	a.resp = handlers.Send(a.life.h, options...)
}

func (a *proofAttempt) sent() *proofAttempt {
	a.send()
	return a
}

// keep files what came back with whoever is behind the address.
func (w *proofWorld) keep(a *proofAttempt) {
	for _, c := range w.clients {
		if tok := handlers.TokenIn(a.resp); tok != "" && c.addr == a.addr && w.r.IntN(2) == 0 {
			c.tokens = append(c.tokens, tok)
		}
	}
}

func (w *proofWorld) step() {
	w.now.Advance(time.Duration(w.r.Int64N(int64(400 * time.Millisecond))))
	c := w.clients[w.r.IntN(len(w.clients))]
	switch op := w.r.IntN(60); {
	case op == 0:
		w.now.Advance(time.Duration(w.r.Int64N(int64(50 * time.Second))))
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
		if w.whenBusy { // it may become busy in between
			w.audit(a.sent())
			w.keep(a)
			return
		}
		handlers.InParallel(len(attempts), func(i int) { attempts[i].send() })
		slices.SortFunc(attempts, func(a, b *proofAttempt) int { return a.resp.StatusCode - b.resp.StatusCode })
		for _, a := range attempts {
			w.audit(a)
			w.keep(a)
		}
	default:
		a := w.attempt()
		w.audit(a.sent())
		w.keep(a)
	}
}

// The promises about own tallies and proofs, over random traces of clients who
// share addresses, solve, stockpile, redeem, drop, replay and steal, while
// instances restart, rotate secrets and change quotas.
func TestProofTraces(t *testing.T) {
	seeds := uint64(12)
	if !kit.Whole() {
		seeds = 2
	}
	modes := maps.Clone(handlers.AllModes)
	modes["WhenBusy"] = middleware.WhenBusy
	calm, busy := 0, 0
	for name, mode := range modes {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s/seed=%d", name, seed), func(t *testing.T) {
				w := newProofWorld(t, mode, seed)
				for range 600 {
					w.step()
				}
				w.requirePrices()
				require.Greater(t, w.passed, 30, "the workload passes")
				require.Greater(t, w.refused, 10, "and is refused")
				require.Less(t, w.now.Now().Sub(handlers.Midnight), time.Hour, "all sales are remembered")
				for _, l := range w.lives {
					require.Zero(t, l.m.Stats().Saturations)
				}
				calm, busy = calm+w.calm, busy+w.busy
			})
		}
	}
	require.Greater(t, calm, 100, "calm instances")
	require.Greater(t, busy, 20, "and busy ones")
}
