// SPDX-License-Identifier: Apache-2.0

package price

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/shop"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/middlewaretest"
	"github.com/tallystick/tallystick/pow"
)

// A till is a policy of the middleware with the defaults of what it sells.
type till struct {
	handler http.Handler
	clock   *middlewaretest.Clock
}

func newTill(t *testing.T, challenge middleware.Challenge, blocks bool) *till {
	clock := middlewaretest.NewClock()
	challenge.Mode, challenge.Path = middleware.Newcomers, "/tally/"
	limit, err := middleware.New(middleware.Config{
		Policy:    "form",
		Limits:    []middleware.Limit{slide(5, time.Minute)},
		Secrets:   [][]byte{[]byte(strings.Repeat("s", 32))},
		Challenge: &challenge,
		Advanced:  middleware.Advanced{PortBlocks: blocks},
		Now:       clock.Now,
	})
	require.NoError(t, err)
	return &till{limit.Handler(http.NotFoundHandler()), clock}
}

// ask sends a request of a newcomer, with a proof or none.
func (c *till) ask(peer, proof string) *http.Response {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.RemoteAddr = peer
	if proof != "" {
		r.Header.Set(middleware.ProofHeader, proof)
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w.Result()
}

// price is what a newcomer from there is asked for.
func (c *till) price(t *testing.T, peer string) int64 {
	offered, err := pow.ParseHeader(c.ask(peer, "").Header.Get(middleware.ChallengeHeader))
	require.NoError(t, err)
	return int64(offered.Work)
}

// What is simulated is what users get: the middleware with its defaults asks newcomers for what
// a stall of the simulation does, whoever has bought before, and when.
func TestDefaultsAreTheMiddlewares(t *testing.T) {
	require.EqualValues(t, work, newTill(t, middleware.Challenge{}, false).price(t, "192.0.2.1:1"))

	const cheap = work / 64 // so that the test does not compute for long
	type visitor struct {
		peer   string
		buyers func(s *stall) []shop.Buyer
	}
	v4 := visitor{"192.0.2.1:1", func(s *stall) []shop.Buyer { return s.v4(0) }}
	v6 := func(peer string, n int64) visitor {
		return visitor{peer, func(s *stall) []shop.Buyer { return s.v6(n) }}
	}
	block := func(peer string, n int64) visitor {
		return visitor{peer, func(s *stall) []shop.Buyer { return s.block(n) }}
	}
	for name, scene := range map[string]struct {
		blocks   bool
		sales    int
		visitors []visitor // the first one buys
	}{
		"an address": {sales: 12, visitors: []visitor{v4}},
		"networks": {sales: 12, visitors: []visitor{v6("[2001:db8:0:101::1]:1", 0x101), v6("[2001:db8:0:102::1]:1", 0x102),
			v6("[2001:db8:0:201::1]:1", 0x201)}},
		"blocks of ports": {true, 6, []visitor{block("192.0.2.1:65535", portBlocks-1),
			block(fmt.Sprint("192.0.2.1:", 4096*(portBlocks-1)), portBlocks-1), block(fmt.Sprint("192.0.2.1:", 4096*(portBlocks-1)-1), portBlocks-2), block("192.0.2.1:1", 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := newTill(t, middleware.Challenge{Work: cheap}, scene.blocks), open()
			now, buyer := int64(0), scene.visitors[0]
			same := func(when string) {
				for _, v := range scene.visitors {
					require.InEpsilon(t, s.price(now, v.buyers(s)), c.price(t, v.peer)*work/cheap, 0.01, "%s: %s", when, v.peer)
				}
			}
			for range scene.sales {
				same("while it buys")
				proof := middlewaretest.Prove(t, c.ask(buyer.peer, ""))
				require.Equal(t, http.StatusNotFound, c.ask(buyer.peer, proof).StatusCode, "served by the handler")
				require.True(t, s.redeem(now, buyer.buyers(s), s.price(now, buyer.buyers(s))))
			}
			same("after it has bought")
			for range 3 {
				now += 5 * minute
				c.clock.Advance(5 * time.Minute)
				same("later")
			}
		})
	}
}
