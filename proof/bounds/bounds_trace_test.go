// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
)

// request sends one request, with anything or nothing to show, and holds it to the bounds.
func (w *buyerWorld) request() {
	l, addr, tier := w.anywhere(), w.anyAddress(), w.r.IntN(2)
	options := []handlers.Option{handlers.From(addr), handlers.With("Tier", tiers[tier])}
	if n := len(w.tokens); n > 0 {
		switch w.r.IntN(4) {
		case 0: // the newest of somebody
			options = append(options, handlers.Showing(w.tokens[n-1]))
		case 1: // replayed, rolled back, stolen
			options = append(options, handlers.Showing(w.tokens[w.r.IntN(n)]))
		case 2: // forked
			options = append(options, handlers.Showing(w.tokens[w.r.IntN(n)], w.tokens[w.r.IntN(n)], w.tokens[n-1]))
		} // or dropped
	}
	var c *work
	if w.r.IntN(4) == 0 || w.mode == middleware.EveryRequest {
		if c = w.anyWork(); c != nil {
			addr = c.addr
			options = append(options, handlers.From(addr), handlers.Proving(c.proof))
		}
	}
	resp := handlers.Send(l.h, options...)
	tok, tally := handlers.TokenIn(resp), ""
	if tok != "" {
		w.tokens = append(w.tokens, tok)
		tally = handlers.ClaimsIn(w.t, tok).Fam
	}
	if c != nil && tally == c.tally() && l.refused == "" {
		w.sale(l, c)
	}
	if resp.StatusCode != http.StatusOK {
		w.refused++
		if l.reason == middleware.NoToken {
			w.wanted++
		}
		return
	}
	w.passed++
	limits := w.tiers
	switch {
	case tally != "":
		require.True(w.t, w.bought(tally), "a tally that nobody bought")
		limits = w.passes
	default:
		require.False(w.t, w.sells && w.mode == middleware.Newcomers, "nothing is free here")
		tally = shared(addr)
		w.free++
	}
	if w.sells && w.mode == middleware.EveryRequest {
		require.NotNil(w.t, c, "no proof")
		l.proofs[c.Text]++
		require.Equal(w.t, 1, l.proofs[c.Text], "a proof bought two requests of one instance")
	}
	l.admitted[tally] = append(l.admitted[tally], w.now.Now().Add(l.offset).UnixMicro())
	for i := range limits[0] {
		w.requireQuota(l.admitted[tally], limits[0][i], limits[1][i], tally != shared(addr), tally)
	}
}

// bought says whether some instance has ever opened the tally.
func (w *buyerWorld) bought(tally string) bool {
	for _, l := range w.lives {
		if l.opened[tally] {
			return true
		}
	}
	return false
}

// requireQuota checks that an instance has admitted no more than the larger tier's quota to
// a tally: in the aligned window of the last request, or in any span that ends with it.
// (N+C)·L, and with F bought tallies (N+C)·L·(1+F), are the sums of that.
func (w *buyerWorld) requireQuota(times []int64, a, b middleware.Limit, own bool, tally string) {
	last := times[len(times)-1]
	if bucket(a) {
		// Under two tiers: the larger debt, and the smaller step.
		step := min(interval(a), interval(b))
		owes := max(a.Burst*interval(a), b.Burst*interval(b))
		for i, first := range times {
			require.LessOrEqual(w.t, int64(len(times)-i), (owes+last-first)/step, "%s: %+v", tally, a)
		}
		return
	}
	size, n := a.Window.Microseconds(), int64(0)
	for _, at := range times {
		// A pass never gets back what it has of a long limit. And the last moments of a
		// window may belong to the next, by another clock.
		if own && a.Window > time.Hour || at/size == last/size && at+w.skew.Microseconds() < (at/size+1)*size {
			n++
		}
	}
	most := max(a.Quota, b.Quota)
	require.LessOrEqual(w.t, n, most, "%s: %+v", tally, a)
}

// requirePaid checks what an instance has sold to an address: in any span that ends now no
// more than leaks in it, and what the work in it buys.
func (w *buyerWorld) requirePaid(l *buyerLife, addr string) {
	list, crowd := l.sold[addr], float64(w.tariff.Crowd)
	paid, last := 0.0, list[len(list)-1]
	for i := len(list) - 1; i >= 0; i-- {
		paid += list[i].work
		span := float64(last.second-list[i].second) + 1
		most := float64(w.tariff.SalesPerHour)*span/3600 + crowd*math.Log2(1+15./8*paid/(crowd*float64(w.tariff.Work)))
		require.LessOrEqual(w.t, float64(len(list)-i), most+1e-9, "%s bought too much for %.0f hashes in %.0f s", addr, paid, span)
	}
}

func (w *buyerWorld) step() {
	w.now.Advance(time.Duration(w.r.Int64N(int64(400 * time.Millisecond))))
	switch op := w.r.IntN(60); {
	case op == 0:
		w.now.Advance(time.Duration(w.r.Int64N(int64(50 * time.Second))))
	case op == 1 && w.r.IntN(4) == 0:
		w.now.Advance(time.Duration(w.r.Int64N(int64(3 * time.Hour))))
	case op == 2 && len(w.lives) < 12:
		w.restart(w.r.IntN(len(w.fleet)))
	case op == 3 && w.full:
		w.flood()
	case op < 12 && w.sells:
		w.fetch(w.anyAddress())
	case op < 20:
		w.redeem()
	default:
		w.request()
	}
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
	modes := map[string]middleware.Mode{"none": middleware.WhenExhausted, "WhenBusy": middleware.WhenBusy}
	wanted, free := 0, 0
	for name, mode := range handlers.AllModes {
		modes[name] = mode
	}
	for name, mode := range modes {
		for _, full := range []bool{false, true} {
			for seed := range seeds {
				t.Run(fmt.Sprintf("%s/full=%t/seed=%d", name, full, seed), func(t *testing.T) {
					w := newBuyerWorld(t, seed, mode, name != "none", full)
					for range 600 {
						w.step()
					}
					require.Greater(t, w.passed+w.refused, 300)
					require.Positive(t, w.refused)
					if mode == middleware.WhenBusy {
						wanted, free = wanted+w.wanted, free+w.free
					}
					if full {
						return
					}
					require.Greater(t, w.passed, 30, "the workload passes")
					if w.sells && mode != middleware.EveryRequest {
						require.Greater(t, w.sales, 10, "and buys")
					}
				})
			}
		}
	}
	require.Greater(t, wanted, 100, "busy instances")
	require.Greater(t, free, 100, "and calm ones")
}
