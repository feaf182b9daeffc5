// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/truth"
)

// A work is a challenge that a client fetched, and its proof once it is solved.
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

// A sold is a tally that an instance has opened: when, by its clock, and for what work.
type sold struct{ second, work int64 }

// fetch gets a challenge, for now or for the stock, unless it is dear.
func (w *world) fetch(c *visitor) {
	resp := handlers.Fetched(w.anywhere().h, handlers.From(c.addr))
	if resp.Header.Get(middleware.ChallengeHeader) == "" {
		return
	}
	if offered := handlers.ChallengeIn(w.t, resp); offered.Work <= 1<<14 {
		c.works = append(c.works, &work{Challenge: offered, addr: c.addr, issued: w.now.Now()})
	}
}

// anyProof picks a proof of a client's, mostly a late one, and solves it if need
// be; nil if there is none.
func (w *world) anyProof(c *visitor) *work {
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

// expected is what becomes of a proof that a client shows to an instance, where that is known. If it opens a tally, that is
// written down.
func (w *world) expected(l *life, p *work, addr string) middleware.Reason {
	reason := p.reason(addr, w.now.Now())
	if reason != "" || w.mode == middleware.EveryRequest || l.opened[p.tally()] {
		return reason
	}
	// The books of prices are another memory: what it sells is checked in its package.
	if !l.prices.Redeem(w.now.Now(), l.shop, l.buyers(addr), l.shop.Key([]byte(p.tally())), w.now.Now(), int64(p.Work)).Granted {
		return "price-risen"
	}
	w.sale(l, p)
	return ""
}

func (l *life) buyers(addr string) []sale.Buyer {
	return []sale.Buyer{{Key: l.shop.Key([]byte(addr)), Crowds: 1}}
}

// sale writes down that a tally is open on an instance.
func (w *world) sale(l *life, p *work) {
	if w.tallies[p.tally()] = p; l.opened[p.tally()] {
		return
	}
	l.opened[p.tally()] = true
	l.sold[p.addr] = append(l.sold[p.addr], sold{w.at(l).Unix(), int64(p.Work)})
	w.sales++
	w.requirePaid(l.sold[p.addr], p.addr)
}

// requirePaid checks what an instance has sold to an address: in any span that ends with the last sale no
// more than leaks in it, and what the work in it buys.
func (w *world) requirePaid(list []sold, addr string) {
	tariff := truth.Tariff{Work: w.tariff.Work, Crowd: w.tariff.Crowd, Leak: w.tariff.SalesPerHour}
	paid := int64(0)
	for i := len(list) - 1; i >= 0; i-- {
		paid += list[i].work
		span := list[len(list)-1].second - list[i].second + 1
		require.LessOrEqual(w.t, int64(len(list)-i), tariff.Most(paid, span), "%s bought too much for %d hashes in %d s", addr, paid, span)
	}
}

// redeem asks for a tally's first token: one instance or all, and, where it is known what must come of it, once or many times.
func (w *world) redeem(c *visitor) {
	p, to, times := w.anyProof(c), w.fleet, 1
	if p == nil || w.mode == middleware.EveryRequest {
		return
	}
	if w.r.IntN(2) == 0 {
		to = []*life{w.anywhere()}
	}
	if w.known() {
		times += 7 * w.r.IntN(2)
	}
	for _, l := range to {
		reason := middleware.Reason("")
		if w.known() {
			reason = w.expected(l, p, c.addr)
		}
		answers := make([]*http.Response, times)
		handlers.InParallel(times, func(i int) { answers[i] = handlers.Redeemed(l.h, p.proof, handlers.From(c.addr)) })
		for _, resp := range answers {
			if resp.StatusCode != http.StatusOK {
				if w.known() {
					require.Equal(w.t, reason, handlers.ProblemIn(w.t, resp).Reason)
				}
				continue
			}
			require.Empty(w.t, reason)
			w.sale(l, p)
			claims := handlers.ClaimsIn(w.t, handlers.TokenIn(resp))
			require.Equal(w.t, p.tally(), claims.Fam, "derived from the challenge alone")
			require.Empty(w.t, claims.T)
			if w.known() {
				require.Equal(w.t, p.ends(), claims.Exp, "and so is its end")
				require.Equal(w.t, handlers.TokenIn(answers[0]), handlers.TokenIn(resp))
			}
			c.tokens = append(c.tokens, handlers.TokenIn(resp))
		}
	}
}

// flood fills the memory: strangers come once each.
func (w *world) flood() {
	for range 20 + w.r.IntN(100) {
		handlers.Send(w.anywhere().h, handlers.From(fmt.Sprintf("198.51.%d.%d", w.r.IntN(256), w.r.IntN(256))))
	}
}
