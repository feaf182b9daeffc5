// SPDX-License-Identifier: Apache-2.0

package threats_test

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/storeless"
)

func TestThreatsOfClocks(t *testing.T) {
	// Two instances, one of them fast.
	skewed := func(t *testing.T, by time.Duration) (now *handlers.Clock, fast, slow http.Handler) {
		now = new(handlers.Clock)
		cfg := handlers.Contact(now)
		slow, _ = handlers.Limited(t, cfg)
		cfg.Now = func() time.Time { return now.Now().Add(by) }
		fast, _ = handlers.Limited(t, cfg)
		return now, fast, slow
	}
	t.Run("T16 clocks differ across a boundary", func(t *testing.T) {
		now, fast, slow := skewed(t, 5*time.Second)
		now.Advance(57 * time.Second) // the fast one is in the next window
		tok := handlers.Spend(t, slow, 5)
		require.Zero(t, handlers.Admitted(slow, 5, handlers.Showing(tok)))
		next := handlers.Spend(t, fast, 5, handlers.Showing(tok))
		total := 10 + handlers.Admitted(fast, 5, handlers.Showing(next)) + handlers.Admitted(slow, 5, handlers.Showing(next)) + handlers.Admitted(slow, 5, handlers.Showing(tok))
		require.LessOrEqual(t, total, 2*5, "nobody is moved back into the old window")
		now.Advance(3 * time.Second)
		require.Zero(t, handlers.Admitted(slow, 5, handlers.Showing(next)), "and the new window is spent when the slow one gets there")
	})
	t.Run("T16 clocks differ inside a window", func(t *testing.T) {
		now, fast, slow := skewed(t, 5*time.Second)
		now.Advance(30 * time.Second)
		tok := handlers.Spend(t, fast, 3)
		tok = handlers.Spend(t, slow, 2, handlers.Showing(tok))
		require.Zero(t, handlers.Admitted(fast, 5, handlers.Showing(tok))+handlers.Admitted(slow, 5, handlers.Showing(tok)))
	})
	t.Run("T16 a clock too far ahead says nothing", func(t *testing.T) {
		now, fast, slow := skewed(t, 20*time.Second)
		now.Advance(50 * time.Second)
		tok := handlers.Spend(t, fast, 5)
		require.Equal(t, 5, handlers.Admitted(slow, 10, handlers.Showing(tok)))
	})
	t.Run("T16 a bucket, and a clock that is far ahead", func(t *testing.T) {
		for _, by := range []time.Duration{10 * time.Minute, 55 * time.Minute, 2 * time.Hour} {
			now := new(handlers.Clock)
			cfg := handlers.Contact(now)
			cfg.Limits = []middleware.Limit{{Quota: 5, Window: time.Second, Algorithm: middleware.TokenBucket}}
			slow, _ := handlers.Limited(t, cfg)
			cfg.Now = func() time.Time { return now.Now().Add(by) }
			fast, _ := handlers.Limited(t, cfg)
			tok := handlers.Spend(t, fast, 1)
			resp := handlers.Send(slow, handlers.Showing(tok, tok)) // by two fields, as some clients do
			require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
			require.Equal(t, "1", resp.Header.Get("Retry-After"), "%s ahead", by)
			require.NotEmpty(t, handlers.TokenIn(resp), "an echoing client learns of a clock that is right")
			now.Advance(time.Second)
			require.Equal(t, 5, handlers.Admitted(slow, 10, handlers.Showing(tok)), "and one that does not take it is not locked out either")
		}
	})
	t.Run("T17 burst at the boundary", func(t *testing.T) {
		for algorithm, want := range map[middleware.Limit]int{
			{Quota: 100, Window: time.Minute}:                                                100,
			{Quota: 100, Window: time.Minute, Algorithm: middleware.FixedWindow}:             200,
			{Quota: 100, Window: time.Minute, Algorithm: middleware.TokenBucket, Burst: 100}: 101,
			{Quota: 100, Window: time.Minute, Algorithm: storeless.LeakyBucket}:              2,
		} {
			now := new(handlers.Clock)
			cfg := handlers.Contact(now)
			cfg.Limits = []middleware.Limit{algorithm}
			h, _ := handlers.Limited(t, cfg)
			now.Advance(time.Minute - 300*time.Millisecond)
			burst := handlers.Admitted(h, 300)
			now.Advance(600 * time.Millisecond)
			require.Equal(t, want, burst+handlers.Admitted(h, 300), "%s", algorithm.Algorithm)
		}
	})
	t.Run("T46 the clock steps back", func(t *testing.T) {
		for _, limit := range []middleware.Limit{
			{Quota: 5, Window: time.Minute},
			{Quota: 5, Window: time.Minute, Algorithm: middleware.FixedWindow},
			{Quota: 5, Window: time.Minute, Algorithm: middleware.TokenBucket},
		} {
			now := new(handlers.Clock)
			now.Advance(24 * time.Hour)
			cfg := handlers.Contact(now)
			cfg.Limits = []middleware.Limit{limit}
			h, _ := handlers.Limited(t, cfg)
			tok := handlers.Spend(t, h, 5)
			now.Advance(-time.Hour)
			require.Zero(t, handlers.Admitted(h, 5), "%s: no fresh quota", limit.Algorithm)
			require.Zero(t, handlers.Admitted(h, 5, handlers.Showing(tok)), "%s: not with the old token either", limit.Algorithm)
			now.Advance(2 * time.Minute)
			require.Equal(t, 5, handlers.Admitted(h, 10, handlers.Showing(tok)), "%s: and nobody is locked out for the hour", limit.Algorithm)
		}
	})
	t.Run("T46 and forward again", func(t *testing.T) {
		now := new(handlers.Clock)
		h, _ := handlers.Limited(t, handlers.Contact(now))
		require.Equal(t, 5, handlers.Admitted(h, 5))
		now.Advance(100 * 24 * time.Hour)
		require.Equal(t, 5, handlers.Admitted(h, 5))
		now.Advance(-100 * 24 * time.Hour)
		require.Zero(t, handlers.Admitted(h, 5))
	})
}

func TestThreatsOfNumbers(t *testing.T) {
	_, header, payload := handlers.Genuine(t, 1)
	counts := func(s string) string {
		return handlers.Thief(t, header, strings.Replace(payload, ",1,0]}", ","+s+",0]}", 1))
	}

	t.Run("T18 counts that are no counts", func(t *testing.T) {
		for _, s := range []string{"-1", "-0", "1.5", "1e3", "01", "+1", "4294967296", "4294967295", "2147483648", "99999999999999999999", "null", `"1"`, "[1]", "1 ", ""} {
			requireAbsent(t, counts(s))
		}
	})
	t.Run("T18 the largest count stays blocked", func(t *testing.T) {
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		tok := counts("2147483647")
		resp := handlers.RequireStatus(t, http.StatusTooManyRequests, handlers.Send(h, handlers.Showing(tok)))
		require.Equal(t, `"contact";r=0;t=60`, resp.Header.Get("RateLimit"))
		require.Zero(t, handlers.Admitted(h, 5, handlers.Showing(tok)))
	})
	t.Run("T18 the largest cost", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Cost = handlers.CostOf
		cfg.Limits[0].Quota = math.MaxInt32
		h := handlers.NewSite(t, cfg)
		require.Equal(t, 1, handlers.Admitted(h, 2, handlers.Costing(math.MaxInt32)))
		for _, cost := range []int64{math.MaxInt32 + 1, math.MaxUint32, math.MaxInt64} {
			require.Equal(t, http.StatusForbidden, handlers.Send(h, handlers.Costing(cost)).StatusCode)
			require.Equal(t, middleware.CostAboveQuota, h.Decisions.Last().Reason)
		}
		require.Equal(t, http.StatusInternalServerError, handlers.Send(h, handlers.Costing(math.MinInt64)).StatusCode)
	})
}

func TestThreatsOfPolicyChanges(t *testing.T) {
	// change has a client use so much, and then the limits be others.
	change := func(t *testing.T, used int, limits ...middleware.Limit) (h *handlers.Site, shown handlers.Option) {
		cfg := handlers.Contact(new(handlers.Clock))
		h = handlers.NewSite(t, cfg)
		tok := handlers.Spend(t, h, used)
		cfg.Limits = limits
		require.NoError(t, h.M.Reconfigure(cfg))
		return h, handlers.Showing(tok)
	}
	t.Run("T43 lower the quota in the middle of a window", func(t *testing.T) {
		h, shown := change(t, 3, handlers.Fixed(2, time.Minute))
		resp := handlers.RequireStatus(t, http.StatusTooManyRequests, handlers.Send(h, shown))
		require.Equal(t, `"contact";r=0;t=60`, resp.Header.Get("RateLimit"), "0, not -1")
		require.Equal(t, `"contact";q=2;w=60`, resp.Header.Get("RateLimit-Policy"))
	})
	t.Run("T43 raise it", func(t *testing.T) {
		h, shown := change(t, 5, handlers.Fixed(20, time.Minute))
		require.Equal(t, `"contact";r=14;t=60`, handlers.Send(h, shown).Header.Get("RateLimit"))
	})
	t.Run("T43 add a limit", func(t *testing.T) {
		h, shown := change(t, 3, handlers.Fixed(5, time.Minute), handlers.Fixed(9, time.Hour))
		require.Equal(t, `"contact";r=1;t=60, "contact-1h";r=8;t=3600`, handlers.Send(h, shown).Header.Get("RateLimit"))
	})
	t.Run("T43 change the window, which is another limit", func(t *testing.T) {
		h, shown := change(t, 5, handlers.Fixed(5, time.Hour))
		require.Equal(t, 5, handlers.Admitted(h, 9, shown))
	})
	t.Run("T43 fall to a lower tier", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Tiers = map[string][]middleware.Limit{"pro": {cfg.Limits[0]}}
		cfg.Tiers["pro"][0].Quota = 50
		tier := "pro"
		cfg.Identity = func(*http.Request) (middleware.Identity, error) {
			id := middleware.APIKey("customer-17")
			id.Tier = tier
			return id, nil
		}
		h, _ := handlers.Limited(t, cfg)
		tok := handlers.Spend(t, h, 20)
		tier = ""
		resp := handlers.RequireStatus(t, http.StatusTooManyRequests, handlers.Send(h, handlers.Showing(tok)))
		require.Equal(t, `"contact";r=0;t=60`, resp.Header.Get("RateLimit"))
		wait, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		require.NoError(t, err)
		require.GreaterOrEqual(t, wait, 60)
	})
}
