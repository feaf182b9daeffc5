// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact/memory"
)

func TestTokenLife(t *testing.T) {
	bucket := middleware.Limit{Name: "b", Algorithm: middleware.TokenBucket, Quota: 1, Window: time.Minute, Burst: 60}
	for name, tt := range map[string]struct {
		change func(*middleware.Config)
		want   time.Duration
	}{
		"a window": {func(*middleware.Config) {}, 2 * time.Minute},
		"a bucket": {func(cfg *middleware.Config) { cfg.Limits = []middleware.Limit{bucket} }, 123 * time.Minute},
		"a larger tier": {func(cfg *middleware.Config) {
			small := bucket
			small.Burst = 2
			cfg.Limits, cfg.Tiers = []middleware.Limit{small}, map[string][]middleware.Limit{"big": {bucket}}
		}, 123 * time.Minute},
		"a counter": {func(cfg *middleware.Config) {
			cfg.Exact = counting(memory.New(0, cfg.Now))
		}, 2 * time.Minute},
		"a counter, a second": {func(cfg *middleware.Config) {
			cfg.Exact = counting(memory.New(0, cfg.Now))
			cfg.Limits[0].Window = time.Second
		}, 50 * time.Second},
		"a sale": {func(cfg *middleware.Config) { cfg.Challenge = &middleware.Challenge{} }, time.Hour},
		"a sale, a day": {func(cfg *middleware.Config) {
			cfg.Challenge, cfg.Limits[0].Window = &middleware.Challenge{}, 24*time.Hour
		}, 48 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			c := new(clock)
			cfg := contact(c)
			tt.change(&cfg)
			m := newLimiter(t, cfg)
			require.Equal(t, tt.want, m.Stats().TokenLife)
			c.Advance(59 * time.Second)
			h := m.Handler(settling(t, false))
			var tok string
			for range 80 { // a full bucket has the longest token
				if resp := send(h, settles(1+int64(len(tok)))); resp.StatusCode == http.StatusOK { // far too little
					tok = tokenIn(resp)
				}
			}
			require.LessOrEqual(t, time.Unix(claimsIn(t, tok).Exp, 0).Sub(c.Now()), m.Stats().TokenLife)
		})
	}
}

// A tally that was sold for longer is honoured for longer, whatever is for sale by now.
func TestTokenLifeOfWhatWasSold(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Limits[0].Window, cfg.Challenge = 24*time.Hour, &middleware.Challenge{PassTime: 24 * time.Hour}
	cfg.Limits = append(cfg.Limits, middleware.Limit{Name: "minute", Quota: 5, Window: time.Minute})
	m := newLimiter(t, cfg)
	require.Equal(t, 48*time.Hour, m.Stats().TokenLife)
	cfg.Limits = cfg.Limits[1:]
	require.NoError(t, m.Reconfigure(cfg))
	require.Equal(t, 48*time.Hour, m.Stats().TokenLife)
	cfg.Challenge = nil
	require.NoError(t, m.Reconfigure(cfg))
	require.Equal(t, 2*time.Minute, m.Stats().TokenLife, "nobody reads them")
}

// Good tokens cost a MAC like forged ones.
func TestFiveGoodTokensAreFour(t *testing.T) {
	cfg := contact(new(clock))
	h := newSite(t, cfg)
	tok := spend(t, h, 1)
	for _, show := range []option{showing(tok, tok, tok, tok, tok), with(middleware.TokenHeader, tok+","+tok+","+tok+","+tok+","+tok), showingCookie(tok, tok, tok, tok, tok)} {
		require.Equal(t, http.StatusOK, send(h, show).StatusCode)
		require.Equal(t, 4, h.Decisions.Last().Tokens)
	}
}

// Secrets are rotated one instance after the other: for a while some of the
// fleet sign with the old one and some with the new.
func TestRotationInEitherOrderKeepsTheTally(t *testing.T) {
	ring := func(names ...string) (secrets [][]byte) {
		for _, name := range names {
			secrets = append(secrets, secret(name))
		}
		return secrets
	}
	for name, rings := range map[string][2][][]byte{
		"old first, then new first": {ring("old", "new"), ring("new", "old")},
		"new first, then old first": {ring("new", "old"), ring("old", "new")},
		"only the old knows one":    {ring("old"), ring("old", "new")},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			var instances []http.Handler
			for _, secrets := range rings {
				cfg := contact(now)
				cfg.Secrets = secrets
				h, _ := limited(t, cfg)
				instances = append(instances, h)
			}
			h := inTurn(instances)
			tok := spend(t, h, 5)
			require.Equal(t, 0, admitted(h, 4, showing(tok)))
		})
	}
	t.Run("in one instance, while serving", func(t *testing.T) {
		cfg := contact(new(clock))
		h := newSite(t, cfg)
		tok := spend(t, h, 3)
		cfg.Secrets = ring("b", "a")
		require.NoError(t, h.M.Reconfigure(cfg))
		resp := send(h, showing(tok))
		require.Equal(t, `"contact";r=1;t=60`, resp.Header.Get("RateLimit"))
		require.NotEqual(t, tok[:64], tokenIn(resp)[:64], "signed by the new secret")
	})
}
