// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// bare is a response without any field of ours.
func bare(status int) step {
	return step{status: status, header: map[string]string{
		"RateLimit": planted, "RateLimit-Policy": planted, middleware.TokenHeader: planted,
	}}
}

// TestOptions plays one scenario for each field of Config that shows in
// responses; bare ones keep what the hostile middleware around has planted.
func TestOptions(t *testing.T) {
	play(t, []scenario{
		{"Cost", func(cfg *middleware.Config) { cfg.Cost = costOf }, []step{
			ok(`"contact";r=1;t=60`).asking(costing(4)),
			no(`"contact";r=1;t=60`, 60).asking(costing(2)),
			ok(`"contact";r=0;t=60`).asking(costing(1)),
			ok(`"contact";r=0;t=60`).asking(costing(0)),
			{status: 403, request: []option{costing(6)}, header: map[string]string{"RateLimit": `"contact";r=0;t=60`}},
			bare(500).asking(costing(-100)),
			no(`"contact";r=0;t=60`, 60),
		}},
		{"Quiet", func(cfg *middleware.Config) {
			cfg.Quiet, cfg.Limits[0].Quota, cfg.Fields = true, 1, middleware.RateLimitFields|middleware.XRateLimitInSeconds
		}, []step{
			bare(200).expect(middleware.TokenHeader, anything).expect("X-RateLimit-Limit", ""),
			{status: 429, retry: 60, header: map[string]string{"RateLimit": planted, "X-RateLimit-Reset": ""}},
		}},
		{"Quiet without token", func(cfg *middleware.Config) {
			cfg.Quiet, cfg.TokenTransport, cfg.Limits[0].Quota = true, middleware.MemoryOnly, 1
		}, []step{
			bare(200),
			{status: 429, retry: 60, header: map[string]string{"RateLimit": planted, middleware.TokenHeader: planted}},
		}},
		{"X-RateLimit in seconds", func(cfg *middleware.Config) {
			cfg.Fields = middleware.RateLimitFields | middleware.XRateLimitInSeconds
			cfg.Limits = append(cfg.Limits, middleware.Limit{Algorithm: middleware.TokenBucket, Quota: 60, Window: time.Minute, Burst: 2})
		}, []step{
			ok(anything).expect("X-RateLimit-Limit", "2").expect("X-RateLimit-Remaining", "1").expect("X-RateLimit-Reset", "1"),
			ok(anything).expect("X-RateLimit-Limit", "2").expect("X-RateLimit-Remaining", "0").expect("X-RateLimit-Reset", "1"),
			no(anything, 1).expect("X-RateLimit-Remaining", "0").expect("X-RateLimit-Reset", "1"),
		}},
		{"X-RateLimit of the slower of two", func(cfg *middleware.Config) {
			cfg.Fields = middleware.RateLimitFields | middleware.XRateLimitInSeconds
			cfg.Limits = []middleware.Limit{fixed(1, time.Minute), fixed(1, time.Hour), fixed(1, time.Second)}
		}, []step{
			ok(anything).expect("X-RateLimit-Remaining", "0").expect("X-RateLimit-Reset", "3600"),
		}},
		{"Shadow", func(cfg *middleware.Config) { cfg.Shadow, cfg.Limits[0].Quota = true, 1 }, []step{
			ok(`"contact";r=0;t=60`),
			ok(`"contact";r=0;t=60`).expect(middleware.TokenHeader, planted), // as a refusal of who shows nothing
		}},
		{"HeaderOnly", func(cfg *middleware.Config) { cfg.TokenTransport = middleware.HeaderOnly }, []step{
			ok(anything).expect("Set-Cookie", "session=1"),
		}},
		{"CookieOnly", func(cfg *middleware.Config) { cfg.TokenTransport = middleware.CookieOnly }, []step{
			ok(anything).expect(middleware.TokenHeader, planted),
		}},
		{"Skip", func(cfg *middleware.Config) {
			cfg.Skip = func(r *http.Request) bool { return r.URL.Path == "/healthz" }
		}, []step{ok(anything)}},
	})
}

func TestSkippedRequestsAreNotCounted(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Skip = func(r *http.Request) bool { return r.URL.Path == "/healthz" }
	cfg.OnDecision = func(_ context.Context, d middleware.Decision) {
		r, ok := d.Request()
		require.True(t, ok)
		require.Equal(t, "/", r.URL.Path)
	}
	s := &spy{Serve: func(w http.ResponseWriter, r *http.Request) {
		_, decided := middleware.FromContext(r.Context())
		require.Equal(t, r.URL.Path == "/", decided)
	}}
	h := newLimiter(t, cfg).Handler(s)
	require.Equal(t, 20, admitted(h, 20, path("/healthz")))
	require.Empty(t, send(h, path("/healthz")).Header)
	require.Equal(t, 5, admitted(h, 20))
}

func TestDefaultCostIsOne(t *testing.T) {
	cfg := contact(new(clock))
	h := newSite(t, cfg)
	send(h)
	require.EqualValues(t, 1, h.Decisions.Last().Cost)
	require.Equal(t, "contact", h.Decisions.Last().Policy)
}

func TestTiers(t *testing.T) {
	now := new(clock)
	cfg := contact(now)
	cfg.Tiers = map[string][]middleware.Limit{
		"pro": {{Algorithm: middleware.FixedWindow, Quota: 8, Window: time.Minute}},
	}
	cfg.Identity = byTier(only(middleware.APIKey("key-17")))
	h := newSite(t, cfg)
	pro := with("Tier", "pro")

	require.Equal(t, `"contact";q=8;w=60`, send(h, pro).Header.Get("RateLimit-Policy"))
	require.Equal(t, "pro", h.Decisions.Last().Tier)
	require.Equal(t, 4, admitted(h, 10), "the tier is no part of who is asking: one count")
	require.Equal(t, 3, admitted(h, 10, pro), "of eight")
	require.Empty(t, h.Log.Lines())

	resp := requireStatus(t, http.StatusTooManyRequests, send(h, with("Tier", "no such")), "an unknown tier is no freedom")
	require.Equal(t, `"contact";q=5;w=60`, resp.Header.Get("RateLimit-Policy"))
	require.Empty(t, h.Decisions.Last().Tier)
	require.Len(t, h.Log.Lines(), 1, "and is logged")
}

// Without a token the limits are told all the same, also where a handler changes what a request has cost.
func TestMemoryOnlyTellsWhatIsLeft(t *testing.T) {
	for name, test := range map[string]struct {
		of     func(*clock) middleware.Config
		handle func(w http.ResponseWriter, r *http.Request) error
		left   string
	}{
		"settled higher": {contact, func(_ http.ResponseWriter, r *http.Request) error { return middleware.Settle(r, 3) }, `"contact";r=2;t=60`},
		"refunded":       {contact, middleware.Refund, `"contact";r=5`},
		"a failure": {login, func(w http.ResponseWriter, r *http.Request) error {
			passwords(w, r)
			return nil
		}, `"attempts";r=9999;t=60, "failures";r=4;t=1`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := test.of(new(clock))
			cfg.TokenTransport = middleware.MemoryOnly
			resp := send(newLimiter(t, cfg).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				require.NoError(t, test.handle(w, r))
			})))
			require.Equal(t, test.left, resp.Header.Get("RateLimit"))
			require.Empty(t, tokenIn(resp))
			require.Empty(t, resp.Cookies())
		})
	}
}
