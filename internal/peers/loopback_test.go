// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkLoopback is a request over a kept connection of the loopback device,
// client and server in this process: what the figures of the others are small
// beside, and what net/http makes of the middleware.
func BenchmarkLoopback(b *testing.B) {
	instance, err := withMemory(nil)(Served(), Plenty(1))
	require.NoError(b, err)
	for _, c := range []struct {
		name    string
		handler http.Handler
		token   bool
	}{
		{"bare", Served(), false},
		{Ours, instance, true},
	} {
		b.Run("limiter="+c.name, func(b *testing.B) {
			var connections atomic.Int64
			server := httptest.NewUnstartedServer(c.handler)
			server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					connections.Add(1)
				}
			}
			server.Start()
			defer server.Close()
			r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL, http.NoBody)
			require.NoError(b, err)
			header := roundTrip(b, server.Client(), r)
			if c.token {
				r.Header.Set(tokenHeader, header.Get(tokenHeader))
			}
			measure(b, func() {
				for range b.N {
					header = roundTrip(b, server.Client(), r)
				}
			})
			require.Equal(b, c.token, header.Get(tokenHeader) != "")
			require.EqualValues(b, 1, connections.Load(), "the connection was not kept")
		})
	}
}

// roundTrip sends r and reads the answer to its end.
func roundTrip(tb testing.TB, client *http.Client, r *http.Request) http.Header {
	response, err := client.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, response.Body)
	if err != nil || response.StatusCode != http.StatusOK || n != int64(len(body)) {
		tb.Fatalf("answered %d with %d bytes, %v", response.StatusCode, n, err)
	}
	return response.Header
}
