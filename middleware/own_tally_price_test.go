// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/token"
)

// Buying tallies costs what the formula says: counted, hash by hash, for a buyer
// who always goes to the cheapest instance.
func TestOwnTalliesCostTheFormula(t *testing.T) {
	const work, crowd = 512, 8
	for _, n := range []int{1, 3} {
		cfg := challenging(new(clock), middleware.Newcomers)
		cfg.Challenge.Work, cfg.Challenge.Crowd = work, crowd
		var sites []*site
		for range n {
			sites = append(sites, newSite(t, cfg))
		}
		var asked, spent int64
		most := 4 * crowd * n
		for f := 1; f <= most; f++ {
			h := sites[(f-1)/crowd%n] // a Crowd from each, then the next Crowd
			c := challengeIn(t, fetched(h))
			proof, hashes := hashed(t, c)
			require.Equal(t, http.StatusOK, redeemed(h, proof).StatusCode)
			asked, spent = asked+int64(c.Work), spent+hashes
			least := 2 * leastHashes(f, n, crowd, work)
			require.GreaterOrEqual(t, float64(asked), least, "%d tallies of %d instances", f, n)
			if f%(crowd*n) == 0 {
				require.InEpsilon(t, 1.44*least, float64(asked), 0.04, "a straight line between doublings is above the curve, and Crowds are bought one by one")
				t.Logf("%d instances: %2d tallies: formula %6.0f, asked %6d, counted %6d hashes", n, f, least, asked, spent)
			}
		}
		require.InEpsilon(t, asked, spent, 0.25, "the price is what solving takes, on average")
		for _, h := range sites {
			require.EqualValues(t, 16*work, challengeIn(t, fetched(h)).Work)
		}
	}
}

// hourly buys as many tallies below a price as can be had in so many steps of time.
func hourly(t *testing.T, h http.Handler, now *clock, most uint64, steps int, step time.Duration) (sales []time.Duration) {
	for i := range steps {
		for {
			c := challengeIn(t, fetched(h))
			if c.Work > most {
				break
			}
			require.Equal(t, http.StatusOK, redeemed(h, solve(t, c)).StatusCode)
			sales = append(sales, time.Duration(i)*step)
		}
		now.Advance(step)
	}
	return sales
}

// Whenever one looks: below a price of 16 W four Crowds are sold at once, and then as many
// as leak, whatever the Crowd.
func TestLeakHoldsInEverySpan(t *testing.T) {
	for _, crowd := range []int64{1, 2, 9} {
		now := new(clock)
		cfg := challenging(now, middleware.Newcomers)
		cfg.Challenge.Crowd, cfg.Challenge.SalesPerHour = crowd, 480
		sales := hourly(t, newSite(t, cfg), now, 16*16, 400, 3*time.Second)
		for i, first := range sales {
			for n, later := range sales[i:] {
				require.LessOrEqual(t, float64(n), float64(4*crowd)+1+8*(later-first).Minutes(), "from %s to %s", first, later)
			}
		}
		require.Greater(t, len(sales), 8*19, "and they go on being sold")
	}
}

// Behind an IPv6 /56 and a /48 the price rises as well, as for so many addresses
// as they are taken for; and what it costs there is not asked elsewhere.
func TestNetworksBuyToo(t *testing.T) {
	for _, test := range []struct {
		name  string
		addr  func(i int) string
		crowd int // tallies until the price doubles
	}{
		{"/64", func(int) string { return "2001:db8::1" }, 2},
		{"/56", func(i int) string { return fmt.Sprintf("2001:db8:0:%x::1", i) }, 2 * 2},
		{"/48", func(i int) string { return fmt.Sprintf("2001:db8:0:%x00::1", i) }, 2 * 8},
		{"unrelated", func(i int) string { return fmt.Sprintf("2001:db8:%x::1", i) }, 1 << 40},
		{"IPv4", func(i int) string { return fmt.Sprintf("203.0.113.%d", i) }, 1 << 40},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := challenging(new(clock), middleware.Newcomers)
			cfg.MaxClients = 0 // so that no network has its part of what is for sale
			h := newSite(t, cfg)
			for i := range min(60, 5*test.crowd) {
				want := uint64(16)
				if test.crowd < 1<<40 {
					want = priceAfter(i, test.crowd, 16)
				}
				require.Equal(t, want, challengeIn(t, fetched(h, from(test.addr(i)))).Work, "tally %d", i)
				bought(t, h, from(test.addr(i)))
			}
			require.EqualValues(t, 16, challengeIn(t, fetched(h, from("2001:db8:ffff::1"))).Work, "nobody else pays for it")
		})
	}
}

// The price belongs to the policy and the address, not to the tier; the first
// token is the same bytes whatever the tier.
func TestTiersAndPrices(t *testing.T) {
	cfg := challenging(new(clock), middleware.Newcomers)
	cfg.Tiers = map[string][]middleware.Limit{"pro": {fixed(50, time.Minute)}}
	cfg.Identity = byTier(middleware.PeerAddress)
	h := newSite(t, cfg)
	pro := with("Tier", "pro")
	proof := solved(t, fetched(h, pro))
	tok := tokenIn(redeemed(h, proof, pro))
	require.Equal(t, tok, tokenIn(redeemed(h, proof)))
	require.Equal(t, 5, admitted(h, 9, showing(tok)))
	require.Equal(t, 45, admitted(h, 60, showing(tok), pro), "a client that changes tier keeps its count")
	bought(t, h, pro)
	require.EqualValues(t, 32, challengeIn(t, fetched(h)).Work, "two were sold to the address")
}

// A life of two of the longest windows that are not above PassTime, an hour at least,
// from the second of issue on whatever instance's clock.
func TestLifeOfAnOwnTally(t *testing.T) {
	const day = 24 * time.Hour
	for _, test := range []struct{ window, memory, life time.Duration }{
		{time.Minute, 0, time.Hour},
		{time.Hour, 0, 2 * time.Hour},
		{day, 0, time.Hour},
		{day, day, 2 * day},
	} {
		now, life := new(clock), test.life
		cfg := challenging(now, middleware.Newcomers)
		cfg.Limits[0].Quota, cfg.Limits[0].Window, cfg.Challenge.PassTime = 120, test.window, test.memory
		h := newSite(t, cfg)
		tok := bought(t, h)
		newest := tok
		for range 2 {
			newest = tokenIn(send(h, showing(newest)))
		}
		require.Equal(t, claimsIn(t, tok).Exp, claimsIn(t, newest).Exp, "use does not prolong it")
		now.Advance(life - time.Nanosecond)
		require.Equal(t, http.StatusOK, send(h, showing(newest)).StatusCode)
		now.Advance(time.Nanosecond)
		require.Equal(t, http.StatusForbidden, send(h, showing(newest)).StatusCode)
		require.ErrorIs(t, h.Decisions.Last().TokenErr, token.ErrExpired)
	}
}

// Who has bought stays in mind for as long as the proof, not as the tally: else days
// of honest newcomers, or one patient network, would leave no room for others.
func TestSalesMakeRoomForTheNext(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.Newcomers)
	cfg.Limits = []middleware.Limit{{Quota: 5, Window: 24 * time.Hour}}
	cfg.MaxClients = 256
	h := newSite(t, cfg)
	for i := range 512 {
		addr := from(fmt.Sprintf("10.0.%d.%d", i/256, i%256))
		require.Equal(t, http.StatusOK, redeemed(h, solved(t, fetched(h, addr)), addr).StatusCode, i)
		now.Advance(4 * time.Minute)
	}
	require.Zero(t, h.M.Stats().Saturations)
}

// A challenge from an instance where an address has bought nothing does not buy at its price where it has bought.
func TestRisenPricesAreChargedAtRedemption(t *testing.T) {
	cfg := challenging(new(clock), middleware.Newcomers)
	cfg.Challenge.Crowd = 1
	hot, calm := newSite(t, cfg), newSite(t, cfg)
	bought(t, hot)
	bought(t, hot)
	cheap := solved(t, fetched(calm))
	resp := redeemed(hot, cheap)
	require.Equal(t, middleware.Reason("price-risen"), problemIn(t, resp).Reason)
	require.EqualValues(t, 4*16, challengeIn(t, resp).Work)
	require.Equal(t, http.StatusOK, redeemed(calm, cheap).StatusCode, "where it is worth its price")
	require.Equal(t, http.StatusOK, redeemed(hot, solved(t, resp)).StatusCode, "at the price it has asked for")
}
