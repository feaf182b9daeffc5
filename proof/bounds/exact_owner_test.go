// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/proof/handlers"
)

// One process counts for all, in its memory. Each time that it dies, a client that drops its tokens gets the limit once
// more, and no more than that.
func TestDeathOfTheProcessThatCounts(t *testing.T) {
	const quota, instances, deaths = 5, 3, 2
	now := new(handlers.Clock)
	secrets := remote.Config{Secrets: [][]byte{handlers.Secret("counter")}}
	var process atomic.Pointer[http.Handler]
	start := func() {
		h, err := remote.Serve(memory.New(0, now.Now), secrets)
		require.NoError(t, err)
		process.Store(&h)
	}
	start()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*process.Load()).ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	counter, err := remote.Open([]string{server.URL}, secrets)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, counter.Close()) })

	var fleet []http.Handler
	for range instances {
		cfg := handlers.Contact(now)
		cfg.Limits = []middleware.Limit{{Quota: quota, Window: time.Hour}}
		cfg.Exact = &middleware.Exact{Counter: counter, Outage: middleware.FailClosed, Deadline: 10 * time.Second}
		fleet = append(fleet, handlers.NewLimiter(t, cfg).Handler(new(handlers.Spy)))
	}
	got := 0
	for life := range 1 + deaths {
		if life > 0 {
			start()
			now.Advance(11 * time.Second) // a refusal is remembered for ten
		}
		for n := range 10 * instances {
			if handlers.Send(fleet[n%instances]).StatusCode == http.StatusOK {
				got++
			}
		}
		require.Equal(t, quota*(1+life), got)
	}
}
