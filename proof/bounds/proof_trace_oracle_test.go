// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"encoding/base64"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/handlers"
)

// A work is a challenge that somebody fetched, and its proof once he has solved
// it.
type work struct {
	pow.Challenge
	addr   string // that it is bound to
	issued time.Time
	proof  string // "" until solved
}

// tally is the id of what a challenge opens, by the definition of its bytes.
func (c *work) tally() string {
	raw, _ := base64.RawURLEncoding.DecodeString(c.Text)
	return base64.RawURLEncoding.EncodeToString(raw[14 : 14+6])
}

// ends is when the tally ends, in Unix seconds: an hour after the challenge.
func (c *work) ends() int64 { return c.issued.Unix() + 3600 }

// reason is why a proof is no good for an address at a time; "" if it is good.
func (c *work) reason(addr string, now time.Time) middleware.Reason {
	issued := c.issued.Truncate(time.Second)
	switch {
	case now.Before(issued.Add(-2*time.Second)) || !now.Before(issued.Add(c.TTL+time.Second)):
		return "expired"
	case addr != c.addr:
		return "client-changed"
	}
	return ""
}

// A count is who was admitted how often in which window.
type count map[struct {
	tally  string
	window int64
}]int

func (c count) add(tally string, window int64) int {
	at := struct {
		tally  string
		window int64
	}{tally, window}
	c[at]++
	return c[at]
}

func (c count) of(tally string, window int64) int {
	return c[struct {
		tally  string
		window int64
	}{tally, window}]
}

// The books of an instance between two starts: what the design lets it remember.
type books struct {
	admitted count
	spent    map[string]bool // proofs that bought a request
	held     map[string]bool // tallies that it has sold
	shop     *limiter.Memory
	prices   *sale.Prices
	windows  map[int64]bool // in which it was alive and asked
}

func newBooks(tariff *middleware.Challenge) *books {
	prices, err := sale.Tariff{Work: tariff.Work, Crowd: tariff.Crowd, SalesPerHour: tariff.SalesPerHour}.Compile()
	if err != nil {
		panic(err)
	}
	b := &books{count{}, map[string]bool{}, map[string]bool{}, limiter.NewMemory(0, 1), prices, map[int64]bool{}}
	return b
}

// sell says what becomes of a good proof, and writes it down.
func (b *books) sell(c *work, tariff *middleware.Challenge, now time.Time) middleware.Reason {
	if b.held[c.tally()] {
		return ""
	}
	// The books of prices are another memory: what it sells is checked in its package.
	if !b.prices.Redeem(now, b.shop, b.buyers(c.addr), b.shop.Key([]byte(c.tally())), now, int64(c.Work)).Granted {
		return "price-risen"
	}
	b.held[c.tally()] = true
	return ""
}

// buyers are an address: the one of IPv6 is alone in its networks, which are cheaper.
func (b *books) buyers(addr string) []sale.Buyer {
	return []sale.Buyer{{Key: b.shop.Key([]byte(addr)), Crowds: 1}}
}

// shared is the tally of an address.
func shared(addr string) string { return "shared " + addr }

// charged is the tally whose token an admitted request was answered with.
func charged(t *testing.T, resp *http.Response, addr string) string {
	if tok := handlers.TokenIn(resp); tok != "" {
		if fam := handlers.ClaimsIn(t, tok).Fam; fam != "" {
			return fam
		}
	}
	return shared(addr)
}

// audit compares what was answered with what the books allow, in either
// direction, and writes down what was admitted.
func (w *proofWorld) audit(a *proofAttempt) {
	t, b, window := w.t, a.life.books, w.window()
	b.windows[window] = true
	if a.resp.StatusCode != http.StatusOK {
		w.refused++
		w.requireRefusal(a)
		return
	}
	w.passed++
	tally := charged(t, a.resp, a.addr)
	require.LessOrEqual(t, b.admitted.add(tally, window), a.life.quota, "an instance admits more than a quota to %s", tally)
	w.truth.add(tally, window)
	switch {
	case w.mode == middleware.EveryRequest:
		require.Equal(t, shared(a.addr), tally)
		require.NotNil(t, a.work, "no proof")
		require.Empty(t, a.work.reason(a.addr, w.now.Now()))
		require.False(t, b.spent[a.work.Text], "a proof bought two requests of one instance")
		b.spent[a.work.Text] = true
		w.solved[a.addr][a.work.Text] = true
	case tally == shared(a.addr):
		require.Equal(t, middleware.WhenExhausted, w.mode)
		require.False(t, a.opened, "the proof's tally is charged")
	default:
		require.Contains(t, a.candidates, tally, "somebody else's tally")
		buyer := w.tallies[tally]
		require.NotNil(t, buyer, "a tally that nobody bought")
		require.Equal(t, buyer.ends(), handlers.ClaimsIn(t, handlers.TokenIn(a.resp)).Exp, "a tally that lives on")
	}
	w.requireBounds(a.addr, window)
}

// requireRefusal checks that a refused request deserves it: by all that was ever
// admitted, not just by what the instance knows.
func (w *proofWorld) requireRefusal(a *proofAttempt) {
	t, b, window := w.t, a.life.books, w.window()
	p := handlers.ProblemIn(t, a.resp)
	want := a.reason
	price := b.prices.Quote(w.now.Now(), b.shop, b.buyers(a.addr)).Price
	require.NotEqual(t, middleware.SoldOut, p.Reason)
	if a.resp.Header.Get(middleware.ChallengeHeader) != "" && w.mode != middleware.EveryRequest {
		require.GreaterOrEqual(t, p.Work, price, "offered below the price")
	} else if w.mode == middleware.Newcomers {
		require.Fail(t, "nothing is offered")
	}
	if want != "" && p.Reason != "replayed" {
		require.Equal(t, want, p.Reason)
	}
	over := func(tally string) {
		require.GreaterOrEqual(t, w.truth.of(tally, window), a.life.quota, "tally %s is under its limit and refused: %s", tally, p.Reason)
	}
	switch {
	case w.mode == middleware.EveryRequest && a.resp.StatusCode == http.StatusTooManyRequests:
		over(shared(a.addr))
	case w.mode == middleware.EveryRequest:
		good := a.work != nil && a.reason == ""
		require.True(t, !good || b.spent[a.work.Text], "a good proof, not spent here, and refused")
	case w.mode == middleware.Newcomers && len(a.candidates) == 0:
		require.Contains(t, []middleware.Reason{middleware.NoToken, middleware.SoldOut, a.reason}, p.Reason)
	default:
		for _, tally := range a.candidates {
			over(tally)
		}
		if w.mode == middleware.WhenExhausted && !a.opened {
			over(shared(a.addr))
		}
	}
}

// requireBounds checks the table of the design for one identity and window: its
// shared tally, and all that it ever bought.
func (w *proofWorld) requireBounds(addr string, window int64) {
	lives := 0
	for _, l := range w.lives {
		if l.books.windows[window] {
			lives++
		}
	}
	admitted, bought := w.truth.of(shared(addr), window), 0
	for tally, buyer := range w.tallies {
		if buyer.addr == addr {
			admitted += w.truth.of(tally, window)
			bought++
		}
	}
	mode := w.mode
	if w.whenBusy {
		mode = middleware.WhenExhausted // whose bound it has
	}
	limits := map[middleware.Mode]int{
		middleware.WhenExhausted: lives * w.most * (1 + bought),
		middleware.Newcomers:     lives * w.most * bought,
		middleware.EveryRequest:  min(lives*w.most, lives*len(w.solved[addr])),
	}
	require.LessOrEqual(w.t, admitted, limits[mode], "%s: %d instances and cold starts, %d tallies", addr, lives, bought)
}

// requirePrices checks, at the end, what the tallies of each address have cost.
func (w *proofWorld) requirePrices() {
	for _, addr := range proofAddresses {
		paid, bought := 0.0, 0
		for _, c := range w.tallies {
			if c.addr == addr {
				paid += float64(c.Work)
				bought++
			}
		}
		n, crowd := len(w.lives), int(w.tariff.Crowd)
		leaked := int(w.now.Now().Sub(handlers.Midnight)*time.Duration(w.tariff.SalesPerHour)*time.Duration(n)/time.Hour) + 1
		require.GreaterOrEqual(w.t, paid, handlers.LeastHashes(max(0, bought-leaked), n, crowd, w.tariff.Work), "%d tallies of %s", bought, addr)
	}
}
