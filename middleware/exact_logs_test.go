// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// What only a counter can count: on the wire it is a limit like any other, and in an
// outage a sliding window of the same quota.
func TestExactTrails(t *testing.T) {
	for _, a := range []middleware.Limit{
		{Algorithm: storeless.SlidingLog, Quota: 3, Window: time.Minute},
		{Algorithm: storeless.RollingDay, Quota: 3, Window: 24 * time.Hour},
	} {
		c := new(clock)
		l := &outage{Counter: exact.NewMemory(0, c.Now)}
		cfg := paid(c, l)
		cfg.Limits = []middleware.Limit{a}
		cfg.Exact.Outage = middleware.FailOpen
		h, _ := limited(t, cfg)
		for range 3 {
			require.Equal(t, http.StatusOK, send(h).StatusCode)
			c.advance(a.Window / 10)
		}
		refused := send(h)
		require.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
		l.down = true
		require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode, "a refusal of the counter is remembered")
		require.Equal(t, 3, admitted(h, 9, from("203.0.113.77")), "the fallback has the quota, and no more")
		l.down = false
		c.advance(a.Window*7/10 - time.Second)
		require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
		c.advance(time.Minute + time.Second) // a rolling day counts whole minutes
		require.Equal(t, http.StatusOK, send(h).StatusCode, "the first has left")
	}
}

func TestExactTrailsWantACounter(t *testing.T) {
	c := new(clock)
	cfg := contact(c)
	cfg.Limits = []middleware.Limit{{Name: "day", Algorithm: storeless.RollingDay, Quota: 3, Window: 24 * time.Hour}}
	_, err := middleware.New(cfg)
	require.EqualError(t, err, "policy \"contact\": Limits[0].Algorithm: a rolling-day needs an exact counter; SlidingWindow is what comes closest without one")
	cfg = paid(c, exact.NewMemory(0, c.Now))
	cfg.Limits = []middleware.Limit{{Name: "day", Quota: 3, Window: 24 * time.Hour}}
	cfg.Tiers = map[string][]middleware.Limit{"pro": {{Name: "day", Algorithm: storeless.RollingDay, Quota: 9, Window: 24 * time.Hour}}}
	_, err = middleware.New(cfg)
	require.EqualError(t, err, `policy "contact": Tiers["pro"]: must have the names, algorithms and windows of Limits, and the same Shadow, in that order; tiers differ in Quota and Burst alone`)
}
