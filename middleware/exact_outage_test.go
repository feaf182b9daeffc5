// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// Whoever reconfigures in an outage still hears that it is over, and hears nothing twice.
func TestAnOutageOutlivesAConfiguration(t *testing.T) {
	c, l, cfg, log := paidRoute()
	m := newLimiter(t, cfg)
	h := m.Handler(new(spy))
	l.fault = onFire
	for range 5 {
		breaks(h, c)
		require.NoError(t, m.Reconfigure(cfg))
	}
	require.Equal(t, 1, strings.Count(log.String(), "does not answer"))
	l.fault = nil
	send(h)
	require.Equal(t, 1, strings.Count(log.String(), "answers again"))
}

// An outage of two seconds must not send a polite client away for a day.
func TestOutageSendsNobodyAwayForLong(t *testing.T) {
	c := new(clock)
	l := newLedger(c)
	l.fault = onFire
	cfg := paid(c, l)
	cfg.Limits = []middleware.Limit{{Name: "day", Quota: 4, Window: 24 * time.Hour}}
	cfg.Exact.Outage, cfg.Instances = middleware.FailOpen, 2
	h, _ := limited(t, cfg)
	require.Equal(t, 2, admitted(h, 2))
	resp := send(h)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.LessOrEqual(t, retryAfter(t, resp), 66*time.Second)
	require.Equal(t, `"day";r=0;t=60`, resp.Header.Get("RateLimit"))
	l.fault = nil
	c.advance(time.Minute)
	require.Equal(t, http.StatusOK, send(h, showing(tokenIn(resp))).StatusCode)
}
