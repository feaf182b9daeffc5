// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// A greedyBuyer is one client behind one address that buys every tally for up to four
// times the first one's price, and uses each to the last request.
type greedyBuyer struct {
	t    *testing.T
	h    *site
	now  *clock
	work uint64            // the first price
	held map[string]string // the newest token of each tally that is alive, by its id
}

// buy buys all that it can pay, and returns how many tallies that was.
func (b *greedyBuyer) buy() (tallies int) {
	for {
		c := challengeIn(b.t, fetched(b.h))
		if c.Work > 4*b.work {
			return tallies
		}
		resp := redeemed(b.h, solve(b.t, c))
		require.Equal(b.t, http.StatusOK, resp.StatusCode)
		b.held[claimsIn(b.t, tokenIn(resp)).Fam] = tokenIn(resp)
		tallies++
	}
}

// spend sends what each tally, and the shared one, admits at this moment.
func (b *greedyBuyer) spend() (passed int) {
	for send(b.h).StatusCode == http.StatusOK {
		passed++
	}
	for id, tok := range b.held {
		if claimsIn(b.t, tok).Exp <= b.now.Now().Unix() {
			delete(b.held, id)
			continue
		}
		for {
			resp := send(b.h, showing(tok))
			if resp.StatusCode != http.StatusOK {
				break
			}
			passed++
			if next := tokenIn(resp); claimsIn(b.t, next).Fam == id {
				tok = next
			}
		}
		b.held[id] = tok
	}
	return passed
}

// A day's quota is not for sale every hour: what a tally is worth is a pass, on the third day as on the first. (When
// a tally had the whole quota and lived for two days, this buyer had 19,250, 37,295 and 45,744 requests of 50 a day.)
func TestThreeDaysOfBuying(t *testing.T) {
	pause := 5 * time.Minute
	if kit.Brief() {
		pause = time.Hour
	}
	minute := middleware.Limit{Name: "minute", Quota: 5, Window: time.Minute}
	day := middleware.Limit{Name: "day", Quota: 50, Window: 24 * time.Hour}
	for name, test := range map[string]struct {
		limits []middleware.Limit
		pass   int
	}{
		"50 a day":                 {[]middleware.Limit{day}, 3},
		"5 a minute and 50 a day":  {[]middleware.Limit{minute, day}, 5},
		"50 a day, a fixed window": {[]middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 50, Window: 24 * time.Hour}}, 3},
		"50 a day, a bucket":       {[]middleware.Limit{{Algorithm: middleware.TokenBucket, Quota: 50, Window: 24 * time.Hour}}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.WhenExhausted)
			cfg.Limits, cfg.Challenge.Crowd, cfg.Challenge.NoWaitingRoom = test.limits, 8, true
			b := &greedyBuyer{t, newSite(t, cfg), now, uint64(cfg.Challenge.Work), map[string]string{}}
			shared := &greedyBuyer{t, newSite(t, cfg), now, 0, nil} // what the address has for nothing
			for day := 1; day <= 3; day++ {
				tallies, passed, free := 0, 0, 0
				for range 24 {
					tallies += b.buy()
					for range time.Hour / pause {
						passed += b.spend()
						free += shared.spend()
						now.Advance(pause)
					}
				}
				t.Logf("day %d: %d tallies, %d requests admitted", day, tallies, passed)
				require.Equal(t, tallies*test.pass+free, passed, "day %d: %d tallies of %d requests", day, tallies, test.pass)
			}
		})
	}
}

// priced takes the cost and the tier of a request from the request.
func priced(cfg *middleware.Config) {
	cfg.Cost = costOf
	cfg.Identity = byTier(middleware.PeerAddress)
}

func query(q string) option { return func(r *http.Request) { r.URL.RawQuery = q } }

// Whatever is shown to whichever instance, none admits more to an own tally in its life
// than the pass of the tier states: over random traces of clients that echo, drop, roll back
// and fork, with restarts, tiers and boundaries of the day.
func TestPassTraces(t *testing.T) {
	seeds := uint64(60)
	if kit.Brief() {
		seeds = 12
	}
	full := 0
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r, now := random(seed), new(clock)
			algorithm := []storeless.Algorithm{storeless.SlidingWindow, middleware.FixedWindow, middleware.TokenBucket}[r.IntN(3)]
			// A minute's limit or none, and the day's; what a pass has in each tier.
			limits := func(minute, day int64) (l []middleware.Limit, pass int64) {
				pass = (day + 23) / 24
				if seed%2 == 0 {
					l = append(l, fixed(minute, time.Minute))
					pass = max(pass, minute)
				}
				return append(l, middleware.Limit{Name: "day", Algorithm: algorithm, Quota: day, Window: 24 * time.Hour}), pass
			}
			cfg := challenging(now, []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers}[r.IntN(2)])
			cfg.Challenge.Crowd, cfg.TokenTransport = 8, middleware.HeaderOnly
			passes := map[string]int64{}
			cfg.Limits, passes[""] = limits(3+r.Int64N(5), 20+r.Int64N(300))
			var pro []middleware.Limit
			pro, passes["pro"] = limits(8+r.Int64N(5), 400+r.Int64N(300))
			cfg.Tiers = map[string][]middleware.Limit{"pro": pro}
			priced(&cfg)

			fleet, counts := make([]*site, 1+r.IntN(3)), make([]map[string]int64, 3)
			start := func(i int) { fleet[i], counts[i] = newSite(t, cfg), map[string]int64{} }
			for i := range fleet {
				start(i)
			}
			now.Advance(24*time.Hour - time.Duration(r.Int64N(int64(time.Hour))))
			tiers := []string{"", "", "pro"}
			if algorithm == middleware.TokenBucket {
				// A bucket's debt is time: what a faster tier has admitted is worth less of
				// it, and no number of requests bounds a mix of tiers.
				tiers = []string{tiers[r.IntN(len(tiers))]}
			}
			tokens, used := []string{}, 0
			for range 1000 {
				i, tier := r.IntN(len(fleet)), tiers[r.IntN(len(tiers))]
				switch op := r.IntN(100); {
				case op == 0:
					start(i)
				case op < 4:
					now.Advance(time.Duration(r.Int64N(int64(6 * time.Minute))))
				case op < 5 && fetched(fleet[i]).StatusCode == http.StatusOK:
					tokens = append(tokens, bought(t, fleet[i], with("Tier", tier)))
				case len(tokens) > 0:
					shown := tokens[len(tokens)-1]
					if r.IntN(3) == 0 {
						shown = tokens[r.IntN(len(tokens))]
					}
					cost := 1 + r.Int64N(2)
					resp := send(fleet[i], showing(shown), with("Tier", tier), costing(cost))
					if resp.StatusCode != http.StatusOK || !fleet[i].Decisions.Last().Own {
						continue
					}
					claims := claimsIn(t, tokenIn(resp))
					require.Less(t, now.Now().Unix(), claims.Exp)
					tokens = append(tokens, tokenIn(resp))
					counts[i][claims.Fam] += cost
					require.LessOrEqual(t, counts[i][claims.Fam], passes[tier], "tier %q of %v", tier, passes)
					used++
					if counts[i][claims.Fam] == passes[tier] {
						full++
					}
				}
			}
			require.Positive(t, used)
		})
	}
	require.Greater(t, full, int(seeds), "passes are used up")
}

// An own tally's answers tell the numbers of its pass, wherever they stand, and those of
// the shared tally what that one has.
func TestPassIsTold(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.WhenExhausted)
	cfg.Limits = []middleware.Limit{fixed(5, time.Minute), {Name: "day", Algorithm: middleware.FixedWindow, Quota: 480, Window: 24 * time.Hour}}
	cfg.Challenge.NoWaitingRoom, cfg.Fields = true, middleware.RateLimitFields|middleware.XRateLimitInSeconds
	cfg.Limits[0].Quota = 50
	h := newSite(t, cfg)
	resp := send(h)
	require.Equal(t, `"contact";q=50;w=60, "day";q=480;w=86400`, resp.Header.Get("RateLimit-Policy"))
	require.EqualValues(t, 480, h.Decisions.Last().Limits()[1].Quota)

	cfg.Challenge.Mode, cfg.Limits[0].Quota = middleware.Newcomers, 4
	h = newSite(t, cfg)
	const field = `"contact";q=4;w=60, "day";q=20;w=86400`
	resp = requireStatus(t, http.StatusForbidden, send(h))
	require.Equal(t, field, resp.Header.Get("RateLimit-Policy"), "what there is to buy")
	tok := bought(t, h)
	now.Advance(30 * time.Minute)
	for i := range 5 {
		now.Advance(time.Minute)
		for j := range 4 {
			resp = requireStatus(t, http.StatusOK, send(h, showing(tok)))
			require.Equal(t, field, resp.Header.Get("RateLimit-Policy"))
			tok = tokenIn(resp)
			left := 19 - 4*i - j
			require.Contains(t, resp.Header.Get("RateLimit"), fmt.Sprintf(`"day";r=%d;t=%d`, left, (29-i-1)*60+60))
			require.EqualValues(t, left, h.Decisions.Last().Limits()[1].Remaining)
			require.EqualValues(t, 20, h.Decisions.Last().Limits()[1].Quota)
		}
	}
	require.Equal(t, "20", resp.Header.Get("X-RateLimit-Limit"), "the tightest is the day's")
	now.Advance(time.Minute)
	require.Contains(t, bodyOf(t, fetched(h, showing(tok))), `{"needed":true,"left":0,`)
	resp = requireStatus(t, http.StatusTooManyRequests, send(h, showing(tok)))
	require.Equal(t, "20", resp.Header.Get("X-RateLimit-Limit"))
	require.Equal(t, []string{"day"}, problemIn(t, resp).Violated)
	challengeIn(t, resp)
	wait := retryAfter(t, resp)
	require.GreaterOrEqual(t, wait, 24*time.Minute, "the end of the tally")
	require.LessOrEqual(t, wait, 24*time.Minute+150*time.Second)
	now.Advance(wait)
	require.Equal(t, http.StatusForbidden, send(h, showing(tok)).StatusCode, "and then there is the next to buy")
}

// A client whose pass is used up is told when the shared tally gives way, not when its own one ends.
func TestSpentPassSendsToTheSharedTally(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.WhenExhausted)
	cfg.Limits = []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 48, Window: 24 * time.Hour}}
	cfg.Challenge.Crowd, cfg.Challenge.PassTime, cfg.Challenge.NoWaitingRoom = 1, 24*time.Hour-time.Second, true
	h := newSite(t, cfg)
	require.Equal(t, 48, admitted(h, 60))
	tok := bought(t, h)
	require.Equal(t, 48, admitted(h, 60, showing(tok)), "rounded up")
	resp := requireStatus(t, http.StatusTooManyRequests, send(h, showing(tok)))
	require.False(t, h.Decisions.Last().Own)
	require.GreaterOrEqual(t, retryAfter(t, resp), 23*time.Hour)
	challengeIn(t, resp)
}

// What costs more than any pass has is charged to the shared tally of a client that has
// one of its own: nobody is locked out, and no work is asked for that would not help.
func TestRequestsThatCostMoreThanAPass(t *testing.T) {
	for name, mode := range map[string]middleware.Mode{"Newcomers": middleware.Newcomers, "WhenExhausted": middleware.WhenExhausted} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, mode)
			cfg.Limits = []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 50, Window: 24 * time.Hour}}
			cfg.Challenge.NoWaitingRoom = true
			priced(&cfg)
			h := newSite(t, cfg)
			tok := bought(t, h)
			if mode == middleware.Newcomers {
				resp := requireStatus(t, http.StatusForbidden, send(h, costing(20)), "a proof first")
				resp = requireStatus(t, http.StatusOK, send(h, costing(20), proving(solved(t, resp))))
				require.False(t, h.Decisions.Last().Own)
				tok = tokenIn(resp)
				require.NotEmpty(t, claimsIn(t, tok).Fam, "what it has paid for")
			} else {
				require.Equal(t, http.StatusOK, send(h, costing(20)).StatusCode)
			}
			require.Equal(t, http.StatusOK, send(h, costing(20), showing(tok)).StatusCode)
			require.False(t, h.Decisions.Last().Own)
			require.EqualValues(t, 10, h.Decisions.Last().Limits()[0].Remaining)

			resp := requireStatus(t, http.StatusTooManyRequests, send(h, costing(20), showing(tok)))
			require.Equal(t, 24*time.Hour, retryAfter(t, resp).Truncate(time.Hour), "it passes then")
			requireNoChallenge(t, resp)
			resp = requireStatus(t, http.StatusTooManyRequests, fetched(h, showing(tok), query("cost=20")))
			requireNoChallenge(t, resp)
			require.Equal(t, http.StatusOK, fetched(h, showing(tok), query("cost=10")).StatusCode)
			require.Equal(t, http.StatusForbidden, send(h, costing(51), showing(tok)).StatusCode)
			require.Equal(t, middleware.CostAboveQuota, h.Decisions.Last().Reason)

			require.Equal(t, http.StatusOK, send(h, costing(3), showing(tok)).StatusCode, "its own is untouched")
			require.True(t, h.Decisions.Last().Own)
		})
	}
}

// Tokens of one pass side by side say all that was used of it, also what was used before
// midnight. An instance that has never met the pass has nothing else to go by.
func TestTokensOfAPassSideBySide(t *testing.T) {
	for _, algorithm := range []storeless.Algorithm{middleware.FixedWindow, storeless.SlidingWindow} {
		t.Run(algorithm.String(), func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.Newcomers)
			cfg.Limits = []middleware.Limit{{Algorithm: algorithm, Quota: 3 * 24, Window: 24 * time.Hour}}
			now.Advance(24*time.Hour - time.Minute)
			h := newSite(t, cfg)
			tokens := []string{bought(t, h)}
			for range 3 {
				resp := requireStatus(t, http.StatusOK, send(h, showing(tokens[len(tokens)-1])))
				tokens = append(tokens, tokenIn(resp))
			}
			newest, older, first := tokens[3], tokens[2], tokens[0]
			now.Advance(2 * time.Minute)
			for _, shown := range [][]string{{newest}, {newest, older}, {older, newest}, {first, older, newest}} {
				require.Zero(t, admitted(newSite(t, cfg), 3, showing(shown...)), "%d tokens", len(shown))
			}
		})
	}
}
