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
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// What other limiters were found to get wrong. The names say what was sent; the comments, what came of it elsewhere.
func TestFaultsOfPeers(t *testing.T) {
	t.Run("zero or negative window; negative limit", func(t *testing.T) { // admits all, or none
		for _, limit := range []middleware.Limit{handlers.Fixed(5, 0), handlers.Fixed(5, -time.Minute), handlers.Fixed(-5, time.Minute), handlers.Fixed(0, time.Minute)} {
			cfg := handlers.Contact(new(handlers.Clock))
			cfg.Limits = []middleware.Limit{limit}
			_, err := middleware.New(cfg)
			require.Error(t, err)
		}
	})
	t.Run("::ffff:1.2.3.4 and ::ffff:9.9.9.9", func(t *testing.T) { // one key, ::
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		require.Equal(t, 3, handlers.Admitted(h, 3, handlers.From("::ffff:1.2.3.4")))
		require.Equal(t, 2, handlers.Admitted(h, 9, handlers.From("1.2.3.4")), "the plain address is the same client")
		require.Equal(t, 5, handlers.Admitted(h, 9, handlers.From("::ffff:9.9.9.9")), "another address is another")
	})
	t.Run("100 addresses of one /64", func(t *testing.T) { // 100 admitted
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		passed := 0
		for i := range 100 {
			passed += handlers.Admitted(h, 1, handlers.From(fmt.Sprintf("2001:db8::%x:1", i)))
		}
		require.Equal(t, 5, passed)
	})
	t.Run("XFF random, real from an untrusted peer", func(t *testing.T) { // 100 admitted
		identify := kit.Must(middleware.ForwardedFor(handlers.Proxies...))(t)
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Identity = identify
		h, _ := handlers.Limited(t, cfg)
		passed := 0
		for i := range 100 {
			passed += handlers.Admitted(h, 1, handlers.With("X-Forwarded-For", fmt.Sprintf("198.51.100.%d, 203.0.113.1", i)))
		}
		require.Equal(t, 5, passed)
	})
	t.Run("configured header absent or misspelt", func(t *testing.T) { // no limit at all
		identify := kit.Must(middleware.ForwardedFor(handlers.Proxies...))(t)
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Identity = identify
		log := handlers.LogTo(&cfg)
		h, _ := handlers.Limited(t, cfg)
		require.Equal(t, 5, handlers.Admitted(h, 50, handlers.From("10.0.0.1"), handlers.With("X-Forwarded", "198.51.100.1")))
		require.Len(t, log.Lines(), 1)
	})
	t.Run("RemoteAddr @ (unix socket) or bare IPv6", func(t *testing.T) { // key "<nil>"; last group lost
		cfg := handlers.Contact(new(handlers.Clock))
		log := handlers.LogTo(&cfg)
		h, _ := handlers.Limited(t, cfg)
		remote := func(addr string) handlers.Option { return func(r *http.Request) { r.RemoteAddr = addr } }
		require.Zero(t, handlers.Admitted(h, 10, remote("@")), "a named refusal")
		require.Len(t, log.Lines(), 1)
		require.Equal(t, 5, handlers.Admitted(h, 10, remote("2001:db8::1")))
		require.Equal(t, 5, handlers.Admitted(h, 10, remote("2001:db8:0:1::1")))
	})
	t.Run("key parts a:b+c and a+b:c", func(t *testing.T) { // equal
		// There is no joining of parts: an identity is a kind and a name, and the kind is no part of the name.
		require.NotEqual(t, handlers.Wire(middleware.APIKey("a:b:c")), handlers.Wire(middleware.Principal("a:b:c")))
		require.NotEqual(t, handlers.Wire(middleware.APIKey("pa")), handlers.Wire(middleware.Principal("a")))
	})
	t.Run("cost -100; cost 0; cost > limit", func(t *testing.T) { // mints quota
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Cost = handlers.CostOf
		decisions, log := handlers.Record(&cfg), handlers.LogTo(&cfg)
		h, _ := handlers.Limited(t, cfg)
		require.Equal(t, http.StatusInternalServerError, handlers.Send(h, handlers.Costing(-100)).StatusCode)
		require.Equal(t, middleware.NegativeCost, decisions.Last().Reason)
		require.Len(t, log.Lines(), 1)
		require.Equal(t, `"contact";r=5`, handlers.Send(h, handlers.Costing(0)).Header.Get("RateLimit"), "a peek")
		require.Equal(t, http.StatusForbidden, handlers.Send(h, handlers.Costing(6)).StatusCode)
		require.Equal(t, middleware.CostAboveQuota, decisions.Last().Reason)
		require.Equal(t, 5, handlers.Admitted(h, 10), "nothing was minted and nothing spent")
	})
	t.Run("tier lowered in mid-window", func(t *testing.T) { // Remaining -3
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Tiers = map[string][]middleware.Limit{"pro": {handlers.Fixed(9, time.Minute)}}
		cfg.Identity = handlers.ByTier(handlers.Only(middleware.APIKey("k")))
		h, _ := handlers.Limited(t, cfg)
		require.Equal(t, 8, handlers.Admitted(h, 8, handlers.With("Tier", "pro")))
		require.Equal(t, `"contact";r=0;t=60`, handlers.Send(h).Header.Get("RateLimit"))
	})
	t.Run("deny, then parse Retry-After", func(t *testing.T) { // not a number; the whole window; none
		now := new(handlers.Clock)
		h, _ := handlers.Limited(t, handlers.Contact(now))
		now.Advance(48 * time.Second)
		handlers.Admitted(h, 5)
		wait := kit.Must(strconv.Atoi(handlers.Send(h).Header.Get("Retry-After")))(t)
		require.GreaterOrEqual(t, wait, 12)
		require.LessOrEqual(t, wait, 13, "what is left of the window, and jitter")
		now.Advance(time.Duration(wait) * time.Second)
		require.Equal(t, http.StatusOK, handlers.Send(h).StatusCode)
	})
	t.Run("rate below 1/s", func(t *testing.T) { // Limit 0, Reset 1
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Limits = []middleware.Limit{{Algorithm: middleware.TokenBucket, Quota: 6, Window: time.Minute, Burst: 2}}
		cfg.Fields = middleware.RateLimitFields | middleware.XRateLimitInSeconds
		h, _ := handlers.Limited(t, cfg)
		resp := handlers.Send(h)
		handlers.RequireHeader(t, resp, "RateLimit-Policy", `"contact";q=2;w=20`, "RateLimit", `"contact";r=1;t=10`, "X-RateLimit-Limit", "2",
			"X-RateLimit-Reset", "10")
	})
	t.Run("limit raised at run time", func(t *testing.T) { // live buckets keep the old rate
		for _, algorithm := range []middleware.Limit{
			{Algorithm: middleware.FixedWindow}, {Algorithm: storeless.SlidingWindow}, {Algorithm: middleware.TokenBucket},
		} {
			now := new(handlers.Clock)
			cfg := handlers.Contact(now)
			algorithm.Quota, algorithm.Window = 5, time.Minute
			cfg.Limits = []middleware.Limit{algorithm}
			h := handlers.NewSite(t, cfg)
			require.Equal(t, 5, handlers.Admitted(h, 9))
			cfg.Limits[0].Quota = 500
			require.NoError(t, h.M.Reconfigure(cfg))
			// A bucket's state is the time until it is empty: a full one stays
			// full, and empties at the new rate from now on.
			now.Advance(time.Second)
			require.GreaterOrEqual(t, handlers.Admitted(h, 8), 8, "%s", algorithm.Algorithm)
		}
	})
	t.Run("deny on policy 2", func(t *testing.T) { // policy 1 stays charged
		now := new(handlers.Clock)
		cfg := handlers.Contact(now)
		cfg.Limits = []middleware.Limit{handlers.Fixed(5, time.Minute), handlers.Fixed(5, time.Hour)}
		cfg.Limits[1].Quota = 2
		h, _ := handlers.Limited(t, cfg)
		require.Equal(t, 2, handlers.Admitted(h, 9))
		require.Equal(t, `"contact";r=3, "contact-1h";r=0;t=3600`, handlers.Send(h).Header.Get("RateLimit"))
	})
	t.Run("many limited headers", func(t *testing.T) { // four buckets for one client
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		passed := 0
		for i := range 50 {
			passed += handlers.Admitted(h, 1, handlers.With("A", fmt.Sprint(i), "B", fmt.Sprint(i), "X-Api-Key", fmt.Sprint(i), "Authorization", fmt.Sprint(i)))
		}
		require.Equal(t, 5, passed)
	})
	t.Run("invalid token cookie", func(t *testing.T) { // loops
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		resp := handlers.RequireStatus(t, http.StatusOK, handlers.Send(h, handlers.ShowingCookie("invalid")), "as if absent")
		require.NotEqual(t, "invalid", handlers.CookieIn(resp).Value, "and replaced")
	})
}
