// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
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
			cfg.Exact = &middleware.Exact{Counter: exact.NewMemory(0, cfg.Now), Outage: middleware.FailClosed}
		}, 2 * time.Minute},
		"a counter, a second": {func(cfg *middleware.Config) {
			cfg.Exact = &middleware.Exact{Counter: exact.NewMemory(0, cfg.Now), Outage: middleware.FailClosed}
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
			c.advance(59 * time.Second)
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
	cfg.Limits[0].Window, cfg.Challenge = 24*time.Hour, &middleware.Challenge{PriceMemory: 24 * time.Hour}
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
