// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/proof/handlers"
)

// shown are the tokens that a client shows: the newest, if it is honest.
func (w *world) shown(addr string) (shown []string) {
	wallet := w.wallets[addr]
	if len(wallet) == 0 {
		return nil
	}
	newest := wallet[len(wallet)-1]
	if w.mode == "honest" {
		return []string{newest}
	}
	pick := func(wallet []string) string { return wallet[w.r.IntN(len(wallet))] }
	switch w.r.IntN(6) {
	case 0:
		return []string{newest}
	case 1: // replay, roll back
		return []string{pick(wallet)}
	case 2: // fork
		return []string{pick(wallet), pick(wallet)}
	case 3: // steal
		if others := w.wallets[clients[w.r.IntN(len(clients))]]; len(others) > 0 {
			return []string{pick(others)}
		}
	case 4: // forge
		return []string{newest[:len(newest)-4] + "AAAA"}
	}
	return nil // drop
}

type attempt struct {
	life   *life
	addr   string
	tier   int
	cost   int64
	tokens []string
	resp   *http.Response
	inside bool // a policy inside refuses it, if this one does not
}

func (w *world) attempt() *attempt {
	addr := clients[w.r.IntN(len(clients))]
	a := &attempt{life: w.fleet[w.r.IntN(len(w.fleet))], addr: addr, cost: 1, tokens: w.shown(addr), tier: w.r.IntN(12) / 8}
	if w.r.IntN(6) == 0 {
		a.cost = w.r.Int64N(4)
	}
	a.inside = w.r.IntN(4) == 0
	return a
}

func (a *attempt) send() {
	a.resp = handlers.Send(a.life.h, handlers.From(a.addr), handlers.With("Tier", tiers[a.tier]), handlers.Costing(a.cost), handlers.Showing(a.tokens...),
		handlers.With("Inside", strconv.FormatBool(a.inside)))
}

// settle writes a request into the logs and checks the bounds.
func (w *world) settle(a *attempt) {
	if tok := handlers.TokenIn(a.resp); tok != "" {
		w.wallets[a.addr] = append(w.wallets[a.addr], tok)
	}
	cost := a.cost
	if a.resp.StatusCode != http.StatusOK {
		cost = 0
	}
	at := w.now.Now().Add(a.life.offset).UnixMicro()
	limits := w.shapes[a.life.variant][a.tier]
	e := event{at, cost, limits, w.owes(a.life.variant, 1), a.life}
	w.logs[a.addr] = append(w.logs[a.addr], e)
	a.life.logs[a.addr] = append(a.life.logs[a.addr], e)
	for _, network := range networksOf(a.addr) {
		a.life.logs[network] = append(a.life.logs[network],
			event{at, cost, filledIn(w.t, limits, nets), w.owes(a.life.variant, nets), a.life})
	}
	if cost == 0 {
		return
	}
	w.passed++
	w.requireBound(a.life.logs[a.addr], 1, "an instance admits more than a quota")
	if w.mode == "honest" {
		w.requireBound(w.logs[a.addr], 1, "an honest client gets more than a quota from the fleet")
	}
	for _, network := range networksOf(a.addr) {
		w.requireBound(a.life.logs[network], nets, "a network gets more than its quota")
	}
}

// requireBound checks the bound at the last event of a history. Where clocks
// differ it is that of the aligned window, under the largest quota there is.
func (w *world) requireBound(h history, factor int64, what string) {
	last := h[len(h)-1]
	for i, l := range last.limits {
		if w.skew == 0 || bucket(l) {
			require.True(w.t, h.mayPass(i), "%s: %+v", what, l)
			continue
		}
		most := int64(0)
		for _, variant := range w.shapes {
			most = max(most, factor*variant[0][i].Quota, factor*variant[1][i].Quota)
		}
		require.LessOrEqual(w.t, h.inCore(l, last.at/l.Window.Microseconds(), w.skew.Microseconds()), most, "%s: %+v", what, l)
	}
}

// requireReason checks that a refused tally, or one of its networks, is over a
// limit: by all that was ever admitted, not just by what the instance knows.
func (w *world) requireReason(a *attempt) {
	if a.resp.StatusCode == http.StatusOK {
		return
	}
	if a.resp.StatusCode == insideRefuses {
		w.inside++
		return
	}
	w.refused++
	if w.mode == "refusing" {
		return
	}
	at, skew := w.now.Now().Add(a.life.offset).UnixMicro(), w.skew.Microseconds()
	limits := w.shapes[a.life.variant][a.tier]
	wide := filledIn(w.t, limits, nets)
	for i, l := range limits {
		if !w.logs[a.addr].mustPass(i, l, at, a.cost, skew) {
			return
		}
		for _, network := range networksOf(a.addr) {
			if !a.life.logs[network].mustPass(i, wide[i], at, a.cost, skew) {
				return
			}
		}
	}
	require.Fail(w.t, "a tally under its limit is refused", "%s, cost %d: %s", a.addr, a.cost, a.resp.Header.Get("RateLimit"))
}

func (w *world) step() {
	w.now.Advance(time.Duration(w.r.Int64N(int64(300 * time.Millisecond))))
	switch op := w.r.IntN(40); {
	case op == 0:
		w.now.Advance(time.Duration(w.r.Int64N(int64(40 * time.Second))))
	case op == 1:
		w.restart(w.r.IntN(len(w.fleet)))
	case op == 2:
		l := w.fleet[w.r.IntN(len(w.fleet))]
		l.variant = 1 - l.variant
		require.NoError(w.t, l.m.Reconfigure(w.config(l)))
	case op == 3:
		w.rotate()
	case op < 6 && w.mode != "honest": // parallel, in one tier: the log knows no order among them
		var group sync.WaitGroup
		attempts := make([]*attempt, 6)
		for i := range attempts {
			attempts[i] = w.attempt()
			attempts[i].tier = attempts[0].tier
			// Until it is refused inside, a request counts: in what others are refused for, and in their tokens. See docs/bounds.md.
			attempts[i].inside = attempts[i].inside && w.mode == "refusing"
		}
		for _, a := range attempts {
			group.Go(a.send)
		}
		group.Wait()
		for _, a := range attempts {
			w.settle(a)
		}
		for _, a := range attempts {
			w.requireReason(a)
		}
	default:
		a := w.attempt()
		a.send()
		w.requireReason(a)
		w.settle(a)
	}
}

// The promise of the whole library, over random traces of requests, dropped,
// replayed, forked, stolen and forged tokens, restarts, changed quotas and
// tiers, rotated secrets, clocks that differ, requests in parallel, and requests that a policy inside refuses.
func TestTraces(t *testing.T) {
	for mode, seeds := range map[string]uint64{"hostile": 10, "skewed": 10, "honest": 10, "refusing": 10} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s/seed=%d", mode, seed), func(t *testing.T) {
				w := newWorld(t, seed, mode)
				for range 250 {
					w.step()
				}
				require.Greater(t, w.passed, 30, "the workload passes")
				require.Greater(t, w.refused, 10, "and is refused")
				require.Greater(t, w.inside, 10, "and inside")
				for _, l := range w.fleet {
					require.Zero(t, l.m.Stats().Saturations)
				}
			})
		}
	}
}
