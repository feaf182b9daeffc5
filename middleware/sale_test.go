// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// An honest client behind a shared address: it asks, solves what it is offered, and asks again.
type honest struct {
	token  string
	prices []uint64
	wait   time.Duration // that it was told
}

// ask sends one request, solving until it is admitted or told to wait.
func (c *honest) ask(t *testing.T, h http.Handler) bool {
	resp := send(h, showing(c.token))
	for range 8 {
		if resp.StatusCode == http.StatusOK {
			if tok := tokenIn(resp); tok != "" {
				c.token = tok
			}
			return true
		}
		if resp.Header.Get(middleware.ChallengeHeader) == "" {
			c.wait = retryAfter(t, resp)
			return false
		}
		offer := challengeIn(t, resp)
		c.prices = append(c.prices, offer.Work)
		resp = send(h, showing(c.token), proving(solve(t, offer)))
	}
	return false
}

func TestSales(t *testing.T) {
	pro := with("Tier", "pro")
	planted := func(name string) func(*scene) { // a tally that another client has bought and spent
		return func(s *scene) {
			thief := from("198.51.100.66")
			tok := bought(s, s.at(0), thief)
			for range 5 {
				tok = tokenIn(send(s.at(0), showing(tok), thief))
			}
			s.tokens[name] = tok
		}
	}
	pays := step{show: "shared", cookie: "own", want: 200, keep: "own", see: all{own, func(s *scene) {
		require.NotEmpty(s, claimsIn(s, cookieIn(s.last).Value).Fam)
	}}}
	scenarios := []scenario{
		// The price belongs to the policy and the address; the first token is the same bytes whatever the tier.
		{"tiers have one price", working(middleware.Newcomers, func(cfg *middleware.Config) {
			cfg.Tiers, cfg.Identity = map[string][]middleware.Limit{"pro": {fixed(50, time.Minute)}}, byTier(middleware.PeerAddress)
		}), []step{
			{as: both(pro, toFetch), want: 200, keep: "offer"}, {as: both(pro, toRedeem), prove: "offer", want: 200, keep: "own"},
			{as: toRedeem, prove: "offer", want: 200, see: all{same("own")}},
			{show: "own", times: 9, passes: 5}, {as: pro, show: "own", times: 60, passes: 45}, // a client that changes tier keeps its count
			{do: buys("another", pro), as: toFetch, want: 200, see: all{work(32)}}, // two were sold to the address
		}},
		// The first instance has sold, the other has not.
		{"a risen price is charged at redemption", working(middleware.Newcomers, func(cfg *middleware.Config) { cfg.Challenge.Crowd = 1 }), []step{
			{do: buys("a")}, {do: buys("b")}, {on: 1, as: toFetch, want: 200, keep: "cheap"},
			{as: toRedeem, prove: "cheap", want: 403, keep: "dear", see: all{because("price-risen"), work(4 * 16)}},
			{on: 1, as: toRedeem, prove: "cheap", want: 200}, // where it is worth its price
			{as: toRedeem, prove: "dear", want: 200},
		}},
		{"a spent shared token in the field hides no own one in the cookie", working(middleware.WhenExhausted), []step{
			{times: 5, show: latest, want: 200, keep: "shared"}, {do: buys("own")}, pays, pays, pays, pays, pays, {show: "shared", cookie: "own", want: 429},
		}},
		{"a client whose pass is used up is told when the shared tally gives way", working(middleware.WhenExhausted, limits(fixed(48, 24*time.Hour)), func(cfg *middleware.Config) {
			cfg.Challenge.Crowd, cfg.Challenge.PassTime, cfg.Challenge.NoWaitingRoom = 1, 24*time.Hour-time.Second, true
		}), []step{
			{times: 60, passes: 48}, {do: buys("own"), show: "own", times: 60, passes: 48}, // rounded up
			{show: "own", want: 429, keep: "offer", see: all{shared, func(s *scene) {
				require.NotEmpty(s, s.challenges["offer"].Text)
				require.GreaterOrEqual(s, retryAfter(s, s.last), 23*time.Hour)
			}}},
		}},
		{"a spent own token hides no shared quota", working(middleware.WhenExhausted), []step{
			{do: planted("spent"), show: "spent", times: 9, passes: 5}, {as: from("203.0.113.2"), cookie: "spent", times: 9, passes: 5},
		}},
		{"another client's shared token takes nothing", working(middleware.WhenExhausted), []step{
			{as: from("198.51.100.66"), times: 5, show: latest, want: 200, keep: "stolen"}, {show: "stolen", cookie: "stolen", times: 9, passes: 5},
		}},
	}
	for name, mode := range map[string]middleware.Mode{"WhenExhausted": middleware.WhenExhausted, "Newcomers": middleware.Newcomers} {
		scenarios = append(scenarios, scenario{"three spent own tokens hide no fresh one/" + name, working(mode), []step{
			{do: planted("1")}, {do: planted("2")}, {do: planted("3")}, exhausting(mode),
			{do: buys("mine"), show: "1 2", cookie: "3 mine", times: 9, passes: 5},
		}}, scenario{"a proof is worth more than a spent own token, and takes its place/" + name, working(mode), []step{
			{do: planted("spent")}, exhausting(mode), {cookie: "spent", want: 429, keep: "offer"},
			{cookie: "spent", prove: "offer", want: 200, see: all{func(s *scene) {
				require.NotEqual(s, claimsIn(s, s.tokens["spent"]).Fam, claimsIn(s, cookieIn(s.last).Value).Fam)
			}}},
		}})
	}
	play(t, scenarios)
}

// A life of two of the longest windows that are not above PassTime, an hour at least,
// from the second of issue on whatever instance's clock.
func TestLifeOfAnOwnTally(t *testing.T) {
	const day = 24 * time.Hour
	for _, test := range []struct{ window, memory, life time.Duration }{{time.Minute, 0, time.Hour}, {time.Hour, 0, 2 * time.Hour}, {day, 0, time.Hour}, {day, day, 2 * day}} {
		play(t, []scenario{{fmt.Sprint(test.window, test.memory), working(middleware.Newcomers, func(cfg *middleware.Config) {
			cfg.Limits[0].Quota, cfg.Limits[0].Window, cfg.Challenge.PassTime = 120, test.window, test.memory
		}), []step{
			{do: buys("own"), show: "own", want: 200, keep: "newest"},
			{show: "newest", want: 200, keep: "newest", see: all{func(s *scene) {
				require.Equal(s, claimsIn(s, s.tokens["own"]).Exp, claimsIn(s, s.tokens["newest"]).Exp, "use does not prolong it")
			}}},
			{after: test.life - time.Nanosecond, show: "newest", want: 200},
			{after: time.Nanosecond, show: "newest", want: 403, see: all{err(token.ErrExpired)}},
		}}})
	}
}

// The price that rises stays one that slow phones can pay before it expires.
func TestThreatOfSlowPhones(t *testing.T) {
	t.Run("T28", func(t *testing.T) {
		const rate = 75_000 // hashes a second, a browser without a JIT
		cfg := challenging(new(clock), middleware.Newcomers)
		cfg.Challenge.Work, cfg.Challenge.Crowd = pow.DefaultWork, 8
		h := newSite(t, cfg)
		c := challengeIn(t, send(h))
		worst := time.Duration(2 * c.Work * uint64(time.Second) / rate)
		require.LessOrEqual(t, worst+2*time.Second, c.TTL, "at the base price none misses it: the worst case fits, with two seconds for the network")
		for _, factor := range []int64{2, 4, 8, 16, 32} { // what the crowd of an address pays
			cfg.Challenge.Work = factor * pow.DefaultWork
			c := challengeIn(t, send(newSite(t, cfg)))
			require.LessOrEqual(t, time.Duration(2*c.Work*uint64(time.Second)/rate)+time.Second, c.TTL, "%d times the base price", factor)
		}
		cfg.Challenge.Work = 1 << 28
		require.Equal(t, 5*time.Minute, challengeIn(t, send(newSite(t, cfg))).TTL, "and no answer is good for longer")
		cfg.Challenge.Mode = middleware.EveryRequest
		require.Equal(t, time.Minute, challengeIn(t, send(newSite(t, cfg))).TTL, "the price does not rise there")
	})
}

// priced takes the cost and the tier of a request from the request.
func priced(cfg *middleware.Config) {
	cfg.Cost = costOf
	cfg.Identity = byTier(middleware.PeerAddress)
}

func query(q string) option { return func(r *http.Request) { r.URL.RawQuery = q } }

// An own tally's answers tell the numbers of its pass, wherever they stand, and the shared tally's
// answers tell its own.
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

// What costs more than any pass has is charged to the shared tally of a client that has
// one of its own: no client is locked out, and no work is asked for that would not help.
func TestRequestsThatCostMoreThanAPass(t *testing.T) {
	dear, setup := costing(20), func(mode middleware.Mode) setup {
		return working(mode, limits(fixed(50, 24*time.Hour)), priced, func(cfg *middleware.Config) { cfg.Challenge.NoWaitingRoom = true })
	}
	common := []step{
		{as: dear, show: "own", want: 200, see: all{shared, remain(10)}},
		{as: dear, show: "own", want: 429, see: all{noChallenge, func(s *scene) {
			require.Equal(s, 24*time.Hour, retryAfter(s, s.last).Truncate(time.Hour), "it passes then")
		}}},
		{as: both(toFetch, query("cost=20")), show: "own", want: 429, see: all{noChallenge}}, {as: both(toFetch, query("cost=10")), show: "own", want: 200},
		{as: costing(51), show: "own", want: 403, reason: middleware.CostAboveQuota}, {as: costing(3), show: "own", want: 200, see: all{own}}, // its own is untouched
	}
	play(t, []scenario{
		{"Newcomers", setup(middleware.Newcomers), append([]step{
			{as: dear, want: 403, keep: "offer"},
			{as: dear, prove: "offer", want: 200, keep: "own", see: all{shared, func(s *scene) { require.NotEmpty(s, claimsIn(s, s.tokens["own"]).Fam, "what it has paid for") }}},
		}, common...)},
		{"WhenExhausted", setup(middleware.WhenExhausted), append([]step{{do: buys("own"), as: dear, want: 200}}, common...)},
	})
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

// Whatever is changed, and changed back: a bought tally has what it was sold with, once.
func TestReconfigureForgetsNothingThatWasSold(t *testing.T) {
	day := middleware.Limit{Name: "day", Quota: 50, Window: 24 * time.Hour}
	minute := middleware.Limit{Name: "minute", Quota: 5, Window: time.Minute}
	mode := func(mode middleware.Mode) func(*middleware.Config) {
		return func(cfg *middleware.Config) {
			challenge := *cfg.Challenge
			challenge.Mode = mode
			if mode == middleware.WhenBusy {
				challenge.BusyAtOnce = 1000
			}
			cfg.Challenge = &challenge
		}
	}
	changes := map[string]func(*middleware.Config){
		"nothing":           func(*middleware.Config) {},
		"no challenge":      func(cfg *middleware.Config) { cfg.Challenge = nil },
		"every request":     mode(middleware.EveryRequest),
		"newcomers":         mode(middleware.Newcomers),
		"when busy":         mode(middleware.WhenBusy),
		"no memory":         func(cfg *middleware.Config) { cfg.InsecureNoMemory = true; cfg.Challenge = nil },
		"another secret":    func(cfg *middleware.Config) { cfg.Secrets = [][]byte{secret("b"), secret("a")} },
		"other limits":      func(cfg *middleware.Config) { cfg.Limits = []middleware.Limit{fixed(9, time.Hour)} },
		"another order":     func(cfg *middleware.Config) { cfg.Limits = []middleware.Limit{day, minute} },
		"a longer memory":   func(cfg *middleware.Config) { c := *cfg.Challenge; c.PassTime = 3 * time.Hour; cfg.Challenge = &c },
		"a shorter memory":  func(cfg *middleware.Config) { c := *cfg.Challenge; c.PassTime = time.Minute; cfg.Challenge = &c },
		"a memory of a day": func(cfg *middleware.Config) { c := *cfg.Challenge; c.PassTime = 24 * time.Hour; cfg.Challenge = &c },
		"another price":     func(cfg *middleware.Config) { c := *cfg.Challenge; c.Crowd, c.SalesPerHour = 99, 1; cfg.Challenge = &c },
		"instances":         func(cfg *middleware.Config) { cfg.Instances = 10 },
		"a tier":            func(cfg *middleware.Config) { cfg.Tiers = map[string][]middleware.Limit{"pro": cfg.Limits} },
		"a customer": func(cfg *middleware.Config) {
			cfg.LimitsFor = patiently(func(context.Context, middleware.Identity) ([]middleware.Limit, error) {
				return []middleware.Limit{minute, {Name: "day", Quota: 60, Window: 24 * time.Hour}}, nil
			})
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.WhenExhausted)
			cfg.Limits, cfg.Challenge.NoWaitingRoom = []middleware.Limit{minute, day}, true
			if name == "a customer" {
				cfg.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.APIKey("k"), nil }
			}
			changed := cfg
			change(&changed)
			r := newSite(t, cfg)
			fresh, used := bought(t, r), bought(t, r)
			require.EqualValues(t, 5, r.Uses(used, 8), "5 in all")
			for range 4 {
				r.To(t, changed)
				admitted(r, 3, showing(used))
				now.Advance(time.Second)
				r.To(t, cfg)
				require.Zero(t, r.Uses(used, 8))
			}
			now.Advance(40 * time.Minute)
			r.To(t, changed)
			r.To(t, cfg)
			require.Zero(t, r.Uses(used, 8), "nor in another window")
			require.EqualValues(t, 5, r.Uses(fresh, 8), "what is not used is still there")
			require.Zero(t, r.Uses(fresh, 8))
		})
	}
}

// Requests that come while the challenge goes off and on are decided by one or the other, and
// requests of a bought tally that are under way are not forgotten.
func TestReconfigureWhileBoughtTalliesAreUsed(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.Newcomers)
	cfg.Limits = []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 100, Window: 24 * time.Hour}}
	cfg.Challenge.PassTime, cfg.Challenge.NoWaitingRoom = 24*time.Hour, true
	off := cfg
	off.Challenge = nil
	r := newSite(t, cfg)
	tok := bought(t, r)
	inParallel(5, func(n int) {
		if n > 0 {
			admitted(r, 100, showing(tok))
			return
		}
		for i := range 40 {
			next := []middleware.Config{off, cfg}[i%2]
			r.Decisions.Hear(&next)
			if err := r.M.Reconfigure(next); err != nil {
				t.Error(err)
			}
		}
	})
	r.To(t, cfg)
	admitted(r, 200, showing(tok))
	require.Len(t, slices.DeleteFunc(r.Decisions.All, func(d middleware.Decision) bool { return !d.Own || !d.Allowed || d.Cost == 0 }), 100)
}
