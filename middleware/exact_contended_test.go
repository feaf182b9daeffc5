// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// A client that hammers its own key, so that its calls lose every race for it, has neither
// the fallback nor an alarm of an outage, however long it goes on: unless the program has chosen
// to be open by name. Then it has the fallback's quota, and no such alarm either. Where nobody
// else asks, it is told of as load that does not end.
func TestAHammeredKeyIsNoOutage(t *testing.T) {
	for _, tc := range []struct {
		outage, contended middleware.Outage
		admitted, refused int // of 40
		status            int // of who is refused
	}{
		{middleware.FailOpen, 0, 0, 40, http.StatusServiceUnavailable},
		{middleware.FailOpen, middleware.FailClosed, 0, 40, http.StatusServiceUnavailable},
		{middleware.FailOpen, middleware.FailOpen, 2, 38, http.StatusTooManyRequests},
		{middleware.FailClosed, middleware.FailOpen, 2, 38, http.StatusTooManyRequests},
		{middleware.FailClosed, 0, 0, 40, http.StatusServiceUnavailable},
	} {
		t.Run(fmt.Sprintf("outage %d, contended %d", tc.outage, tc.contended), func(t *testing.T) {
			c := new(clock)
			l := newLedger(c)
			cfg := paid(c, l)
			log := logging(&cfg)
			cfg.Limits = []middleware.Limit{{Name: "day", Quota: 4, Window: 24 * time.Hour}}
			cfg.Exact.Outage, cfg.Exact.Contended, cfg.Instances = tc.outage, tc.contended, 2
			h, _ := limited(t, cfg)
			l.fault = func(context.Context, int) error { return fmt.Errorf("%w: a race", exact.ErrContended) }
			admitted, refused := 0, 0
			for range 40 { // for ten seconds: longer than any silence that is an outage
				resp := send(h)
				open := tc.contended == middleware.FailOpen
				require.Equal(t, open, resp.Header.Get("Tallystick-Degraded") != "")
				switch resp.StatusCode {
				case http.StatusOK:
					admitted++
				case tc.status:
					refused++
				}
				c.advance(250 * time.Millisecond)
			}
			require.Equal(t, tc.admitted, admitted, "the fallback's quota, where it is open by name")
			require.Equal(t, tc.refused, refused)
			require.Equal(t, 40, l.count(), "no breaker opens")
			require.Equal(t, []string{"counter-refuses"}, codesIn(strings.Split(strings.TrimSpace(log.String()), "\n")), "no alarm of an outage")
			l.fault = nil
			require.Equal(t, http.StatusOK, send(h).StatusCode, "the counter decides, and has charged nothing")
		})
	}
}
