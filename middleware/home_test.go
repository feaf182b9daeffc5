// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/storeless"
)

// atHome is the configuration of one of ten instances: 100 requests a minute, of which a tally
// that was bought may use 19 away from home.
func atHome(c *clock, mode middleware.Mode) middleware.Config {
	cfg := challenging(c, mode)
	cfg.Limits = []middleware.Limit{{Quota: 100, Window: time.Minute}}
	cfg.Instances = 10
	return cfg
}

func sites(t testing.TB, n int, cfg middleware.Config) (all []*site) {
	for range n {
		all = append(all, newSite(t, cfg))
	}
	return all
}

func handlers(sites []*site) (all []http.Handler) {
	for _, s := range sites {
		all = append(all, s)
	}
	return all
}

// TestTallyNearHome: a tally is whole where its challenge came from, wherever its proof was shown, and
// worth a share on each other instance, whatever token it shows there.
func TestTallyNearHome(t *testing.T) {
	for name, mode := range map[string]middleware.Mode{"WhenExhausted": middleware.WhenExhausted, "Newcomers": middleware.Newcomers} {
		t.Run(name, func(t *testing.T) {
			s := sites(t, 10, atHome(new(clock), mode))
			if mode == middleware.WhenExhausted {
				for _, h := range s { // what everybody shares is not what is looked at
					admitted(h, 100)
				}
			}
			proof := solve(t, challengeIn(t, fetched(s[3])))
			first := tokenIn(redeemed(s[7], proof))
			for i, h := range s {
				require.Equal(t, first, tokenIn(redeemed(h, proof)), "one proof is one tally, everywhere")
				want := 19
				if i == 3 {
					want = 100
				}
				require.Equal(t, want, admitted(h, 150, showing(first)), "instance %d, by the first token", i)
			}
		})
	}
}

// TestTallyEchoedAwayFromHome: a client that is spread evenly and echoes what it gets uses all
// of its quota, and is told the truth on each instance.
func TestTallyEchoedAwayFromHome(t *testing.T) {
	s := sites(t, 10, atHome(new(clock), middleware.Newcomers))
	tok := bought(t, s[0])
	for n := range 100 {
		tok = tokenIn(requireStatus(t, http.StatusOK, send(s[n%10], showing(tok)), n))
	}
	refused := requireStatus(t, http.StatusTooManyRequests, send(s[1], showing(tok)))
	challengeIn(t, refused)
}

// TestShareIsTold: near the end of its share a client is told what it has left there, and when
// it is refused by the share alone, it is offered a challenge: the further tally is at home there.
func TestShareIsTold(t *testing.T) {
	now := new(clock)
	s := sites(t, 2, atHome(now, middleware.Newcomers))
	tok := bought(t, s[0])
	var last *http.Response
	for range 19 {
		last = requireStatus(t, http.StatusOK, send(s[1], showing(tok)))
		tok = tokenIn(last)
	}
	require.Equal(t, `"contact";r=0;t=60`, last.Header.Get("RateLimit"))
	refused := requireStatus(t, http.StatusTooManyRequests, send(s[1], showing(tok)))
	require.Equal(t, middleware.OverLimit, s[1].decisions.last().Reason)
	further := tokenIn(send(s[1], showing(tok), proving(solve(t, challengeIn(t, refused)))))
	require.Equal(t, 99, admitted(s[1], 150, showing(further)))
	require.Equal(t, 81, admitted(s[0], 150, showing(tok)), "what it has left at home")
	now.advance(2 * time.Minute)
	require.Equal(t, 19, admitted(s[1], 150, showing(tok)), "a share of each window")
}

func TestHomeThatIsGone(t *testing.T) {
	now := new(clock)
	s := sites(t, 1, atHome(now, middleware.Newcomers))
	tok := bought(t, s[0])
	require.Equal(t, 30, admitted(s[0], 30, showing(tok)))
	for _, h := range sites(t, 3, atHome(now, middleware.Newcomers)) {
		require.Equal(t, 19, admitted(h, 50, showing(tok)))
	}
}

func TestHomeOutlivesItsConfiguration(t *testing.T) {
	cfg := atHome(new(clock), middleware.Newcomers)
	h := newSite(t, cfg)
	tok := bought(t, h)
	require.Equal(t, 10, admitted(h, 10, showing(tok)))
	cfg.Instances = 20
	require.NoError(t, h.m.Reconfigure(cfg))
	require.Equal(t, 90, admitted(h, 150, showing(tok)))
}

// TestSharesByInstances: one instance, or none said, holds nothing; ten times too many hold more, ten
// times too few less; a small quota is hardly shared.
func TestSharesByInstances(t *testing.T) {
	for _, test := range []struct {
		quota, instances int64
		want             int
	}{{100, 0, 100}, {100, 1, 100}, {100, 2, 60}, {100, 10, 19}, {100, 100, 6}, {100, 1000, 3}, {5, 3, 5}, {5, 10, 4}, {1, 50, 1}} {
		t.Run(strconv.FormatInt(test.quota, 10)+" on "+strconv.FormatInt(test.instances, 10), func(t *testing.T) {
			cfg := atHome(new(clock), middleware.Newcomers)
			cfg.Limits[0].Quota, cfg.Instances = test.quota, test.instances
			s := sites(t, 2, cfg)
			require.Equal(t, test.want, admitted(s[1], 150, showing(bought(t, s[0]))))
		})
	}
}

// TestDearRequestsAwayFromHome: the share is one of requests. One that costs more than a cheap one's share is
// served away from home too.
func TestDearRequestsAwayFromHome(t *testing.T) {
	for _, test := range []struct{ cost, want int }{{1, 19}, {2, 12}, {8, 5}, {30, 3}, {60, 1}, {100, 1}} {
		cfg := atHome(new(clock), middleware.Newcomers)
		cfg.Cost = func(*http.Request) int64 { return int64(test.cost) }
		s := sites(t, 2, cfg)
		tok := bought(t, s[0])
		require.Equal(t, test.want, admitted(s[1], 150, showing(tok)), "cost %d", test.cost)
		require.Equal(t, 100/test.cost, admitted(s[0], 150, showing(tok)), "cost %d", test.cost)
	}
}

// TestCheapRequestsBesideDearOnes: requests of each class of costs have their own share, so that none takes another's
// room. All together have no more than the quota.
func TestCheapRequestsBesideDearOnes(t *testing.T) {
	for name, test := range map[string]struct {
		first, then string
		want        [2]int
	}{
		"dear ones first":     {"30", "1", [2]int{5, 32}}, // 150 of 159, and all of 32
		"cheap ones first":    {"1", "30", [2]int{32, 5}}, //
		"one class":           {"17", "30", [2]int{9, 0}}, // 153 of 159
		"more than the quota": {"60", "30", [2]int{3, 0}}, // 180 of 200, of which nothing is held
		"beside what is less": {"60", "10", [2]int{3, 2}}, // 200 of 200
	} {
		t.Run(name, func(t *testing.T) {
			cfg := atHome(new(clock), middleware.Newcomers)
			cfg.Limits[0].Quota = 200
			cfg.Cost = costOf
			s := sites(t, 2, cfg)
			first, then := with("Cost", test.first), with("Cost", test.then)
			tok := bought(t, s[0], then)
			require.Equal(t, test.want[0], admitted(s[1], 250, first, showing(tok)))
			require.Equal(t, test.want[1], admitted(s[1], 250, then, showing(tok)))
			refused := requireStatus(t, http.StatusTooManyRequests, send(s[1], then, showing(tok)))
			further := solve(t, challengeIn(t, refused))
			require.Equal(t, http.StatusOK, send(s[1], then, showing(tok), proving(further)).StatusCode)
		})
	}
}

func TestSharesOfTiersAndCustomers(t *testing.T) {
	cfg := atHome(new(clock), middleware.Newcomers)
	cfg.Identity = byCustomer
	cfg.Tiers = map[string][]middleware.Limit{"large": {{Quota: 1000, Window: time.Minute}}}
	cfg.LimitsFor = patiently(func(_ context.Context, id middleware.Identity) ([]middleware.Limit, error) {
		if id.Name() != "own" {
			return nil, nil
		}
		return []middleware.Limit{{Quota: 400, Window: time.Minute}}, nil
	})
	s := sites(t, 2, cfg)
	for _, test := range []struct {
		key, tier string
		want      int64
	}{{"a", "", 100}, {"b", "large", 1000}, {"own", "", 400}} {
		as := with("X-Customer", test.key, "X-Tier", test.tier)
		tok := bought(t, s[0], as)
		p, err := limiter.Compile("contact", []storeless.Limit{{Quota: test.want, Window: time.Minute}})
		require.NoError(t, err)
		require.EqualValues(t, p.Away(10, 1).Limit(0).Quota, admitted(s[1], 1500, as, showing(tok)), test.key)
		require.EqualValues(t, test.want, admitted(s[0], 1500, as, showing(tok)), test.key)
	}
}

// TestSettledAwayFromHome: what a request gives back, it gives back to the share; what it costs more, the share pays.
func TestSettledAwayFromHome(t *testing.T) {
	for name, test := range map[string]struct{ cost, want int }{
		"given back": {0, 150}, "as estimated": {1, 19}, "two for one": {2, 10},
	} {
		t.Run(name, func(t *testing.T) {
			s := sites(t, 2, atHome(new(clock), middleware.Newcomers))
			s[1].spy.serve = func(_ http.ResponseWriter, r *http.Request) {
				require.NoError(t, middleware.Settle(r, int64(test.cost)))
			}
			require.Equal(t, test.want, admitted(s[1], 150, showing(bought(t, s[0]))))
		})
	}
}

// TestHomesCannotBeTold: the mark of a home is another for each challenge, and as random as the serial before it.
func TestHomesCannotBeTold(t *testing.T) {
	s := sites(t, 2, atHome(new(clock), middleware.Newcomers))
	marks := map[string]int{}
	for n := range 200 {
		raw, err := base64.RawURLEncoding.DecodeString(challengeIn(t, fetched(s[n%2], from("192.0.2."+strconv.Itoa(n)))).Text)
		require.NoError(t, err)
		marks[string(raw[20:23])]++
	}
	require.Greater(t, len(marks), 195)
}
