// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A Prometheus finds the page by itself, and reads it: what the drill feeds it from a file is
// what it would have read.
func TestPrometheusScrapes(t *testing.T) {
	needs(t, "prometheus")
	d := newDrill(t)
	d.play(false)
	site := httptest.NewServer(d.metrics)
	defer site.Close()
	target, err := url.Parse(site.URL)
	require.NoError(t, err)
	s := serve(t, t.TempDir(), `
global: {scrape_interval: 200ms, scrape_timeout: 200ms}
scrape_configs:
  - job_name: site
    static_configs: [{targets: ["`+target.Host+`"]}]
`)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	for {
		body, err := s.get(ctx, "/api/v1/query?"+url.Values{"query": {`sum by (tallystick_policy) (tallystick_decisions_total{job="site", tallystick_policy="contact"})`}}.Encode())
		require.NoError(t, err)
		if strings.Contains(string(body), `"4"`) {
			return
		}
		select {
		case <-ctx.Done():
			require.Fail(t, "it reads nothing", "%s", body)
		case <-every.C:
		}
	}
}
