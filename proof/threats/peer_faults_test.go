// SPDX-License-Identifier: Apache-2.0

package threats_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/storeless"
)

// What other limiters were found to get wrong. The names say what was sent; the comments, what came of it elsewhere.
func TestFaultsOfPeers(t *testing.T) {
	t.Run("zero or negative window; negative limit", func(t *testing.T) { // admits all, or none
		for _, limit := range []middleware.Limit{fixed(5, 0), fixed(5, -time.Minute), fixed(-5, time.Minute), fixed(0, time.Minute)} {
			cfg := contact(new(clock))
			cfg.Limits = []middleware.Limit{limit}
			_, err := middleware.New(cfg)
			require.Error(t, err)
		}
	})
	t.Run("::ffff:1.2.3.4 and ::ffff:9.9.9.9", func(t *testing.T) { // one key, ::
		h, _ := limited(t, contact(new(clock)))
		require.Equal(t, 3, admitted(h, 3, from("::ffff:1.2.3.4")))
		require.Equal(t, 2, admitted(h, 9, from("1.2.3.4")), "the plain address is the same client")
		require.Equal(t, 5, admitted(h, 9, from("::ffff:9.9.9.9")), "another address is another")
	})
	t.Run("100 addresses of one /64", func(t *testing.T) { // 100 admitted
		h, _ := limited(t, contact(new(clock)))
		passed := 0
		for i := range 100 {
			passed += admitted(h, 1, from(fmt.Sprintf("2001:db8::%x:1", i)))
		}
		require.Equal(t, 5, passed)
	})
	t.Run("XFF random, real from an untrusted peer", func(t *testing.T) { // 100 admitted
		identify, err := middleware.ForwardedFor(proxies...)
		require.NoError(t, err)
		cfg := contact(new(clock))
		cfg.Identity = identify
		h, _ := limited(t, cfg)
		passed := 0
		for i := range 100 {
			passed += admitted(h, 1, with("X-Forwarded-For", fmt.Sprintf("198.51.100.%d, 203.0.113.1", i)))
		}
		require.Equal(t, 5, passed)
	})
	t.Run("configured header absent or misspelt", func(t *testing.T) { // no limit at all
		identify, err := middleware.ForwardedFor(proxies...)
		require.NoError(t, err)
		cfg := contact(new(clock))
		cfg.Identity = identify
		log := logTo(&cfg)
		h, _ := limited(t, cfg)
		require.Equal(t, 5, admitted(h, 50, from("10.0.0.1"), with("X-Forwarded", "198.51.100.1")))
		require.Len(t, log.Lines(), 1)
	})
	t.Run("RemoteAddr @ (unix socket) or bare IPv6", func(t *testing.T) { // key "<nil>"; last group lost
		cfg := contact(new(clock))
		log := logTo(&cfg)
		h, _ := limited(t, cfg)
		remote := func(addr string) option { return func(r *http.Request) { r.RemoteAddr = addr } }
		require.Zero(t, admitted(h, 10, remote("@")), "a named refusal")
		require.Len(t, log.Lines(), 1)
		require.Equal(t, 5, admitted(h, 10, remote("2001:db8::1")))
		require.Equal(t, 5, admitted(h, 10, remote("2001:db8:0:1::1")))
	})
	t.Run("key parts a:b+c and a+b:c", func(t *testing.T) { // equal
		// There is no joining of parts: an identity is a kind and a name, and the kind is no part of the name.
		require.NotEqual(t, wire(middleware.APIKey("a:b:c")), wire(middleware.Principal("a:b:c")))
		require.NotEqual(t, wire(middleware.APIKey("pa")), wire(middleware.Principal("a")))
	})
	t.Run("cost -100; cost 0; cost > limit", func(t *testing.T) { // mints quota
		cfg := contact(new(clock))
		cfg.Cost = costOf
		decisions, log := record(&cfg), logTo(&cfg)
		h, _ := limited(t, cfg)
		require.Equal(t, http.StatusInternalServerError, send(h, costing(-100)).StatusCode)
		require.Equal(t, middleware.NegativeCost, decisions.Last().Reason)
		require.Len(t, log.Lines(), 1)
		require.Equal(t, `"contact";r=5`, send(h, costing(0)).Header.Get("RateLimit"), "a peek")
		require.Equal(t, http.StatusForbidden, send(h, costing(6)).StatusCode)
		require.Equal(t, middleware.CostAboveQuota, decisions.Last().Reason)
		require.Equal(t, 5, admitted(h, 10), "nothing was minted and nothing spent")
	})
	t.Run("tier lowered in mid-window", func(t *testing.T) { // Remaining -3
		cfg := contact(new(clock))
		cfg.Tiers = map[string][]middleware.Limit{"pro": {fixed(9, time.Minute)}}
		cfg.Identity = byTier(only(middleware.APIKey("k")))
		h, _ := limited(t, cfg)
		require.Equal(t, 8, admitted(h, 8, with("Tier", "pro")))
		require.Equal(t, `"contact";r=0;t=60`, send(h).Header.Get("RateLimit"))
	})
	t.Run("deny, then parse Retry-After", func(t *testing.T) { // not a number; the whole window; none
		now := new(clock)
		h, _ := limited(t, contact(now))
		now.Advance(48 * time.Second)
		admitted(h, 5)
		wait, err := strconv.Atoi(send(h).Header.Get("Retry-After"))
		require.NoError(t, err)
		require.GreaterOrEqual(t, wait, 12)
		require.LessOrEqual(t, wait, 13, "what is left of the window, and jitter")
		now.Advance(time.Duration(wait) * time.Second)
		require.Equal(t, http.StatusOK, send(h).StatusCode)
	})
	t.Run("rate below 1/s", func(t *testing.T) { // Limit 0, Reset 1
		cfg := contact(new(clock))
		cfg.Limits = []middleware.Limit{{Algorithm: middleware.TokenBucket, Quota: 6, Window: time.Minute, Burst: 2}}
		cfg.Fields = middleware.RateLimitFields | middleware.XRateLimitInSeconds
		h, _ := limited(t, cfg)
		resp := send(h)
		requireHeader(t, resp, "RateLimit-Policy", `"contact";q=2;w=20`, "RateLimit", `"contact";r=1;t=10`, "X-RateLimit-Limit", "2",
			"X-RateLimit-Reset", "10")
	})
	t.Run("limit raised at run time", func(t *testing.T) { // live buckets keep the old rate
		for _, algorithm := range []middleware.Limit{
			{Algorithm: middleware.FixedWindow}, {Algorithm: storeless.SlidingWindow}, {Algorithm: middleware.TokenBucket},
		} {
			now := new(clock)
			cfg := contact(now)
			algorithm.Quota, algorithm.Window = 5, time.Minute
			cfg.Limits = []middleware.Limit{algorithm}
			h := newSite(t, cfg)
			require.Equal(t, 5, admitted(h, 9))
			cfg.Limits[0].Quota = 500
			require.NoError(t, h.M.Reconfigure(cfg))
			// A bucket's state is the time until it is empty: a full one stays
			// full, and empties at the new rate from now on.
			now.Advance(time.Second)
			require.GreaterOrEqual(t, admitted(h, 8), 8, "%s", algorithm.Algorithm)
		}
	})
	t.Run("deny on policy 2", func(t *testing.T) { // policy 1 stays charged
		now := new(clock)
		cfg := contact(now)
		cfg.Limits = []middleware.Limit{fixed(5, time.Minute), fixed(5, time.Hour)}
		cfg.Limits[1].Quota = 2
		h, _ := limited(t, cfg)
		require.Equal(t, 2, admitted(h, 9))
		require.Equal(t, `"contact";r=3, "contact-1h";r=0;t=3600`, send(h).Header.Get("RateLimit"))
	})
	t.Run("many limited headers", func(t *testing.T) { // four buckets for one client
		h, _ := limited(t, contact(new(clock)))
		passed := 0
		for i := range 50 {
			passed += admitted(h, 1, with("A", fmt.Sprint(i), "B", fmt.Sprint(i), "X-Api-Key", fmt.Sprint(i), "Authorization", fmt.Sprint(i)))
		}
		require.Equal(t, 5, passed)
	})
	t.Run("invalid token cookie", func(t *testing.T) { // loops
		h, _ := limited(t, contact(new(clock)))
		resp := requireStatus(t, http.StatusOK, send(h, showingCookie("invalid")), "as if absent")
		require.NotEqual(t, "invalid", cookieIn(resp).Value, "and replaced")
	})
}
