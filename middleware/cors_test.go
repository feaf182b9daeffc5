// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// allowing is the least CORS middleware that does its work.
func allowing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "https://app.example")
		if r.Method == http.MethodOptions {
			w.Header().Set("Access-Control-Allow-Headers", strings.Join(middleware.CORSAllowHeaders(), ", "))
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Access-Control-Expose-Headers", strings.Join(middleware.CORSExposeHeaders(), ", "))
		h.ServeHTTP(w, r)
	})
}

func TestCORSLists(t *testing.T) {
	require.Equal(t, []string{"Tallystick-Token", "Tallystick-Proof"}, middleware.CORSAllowHeaders())
	require.Equal(t, []string{"Tallystick-Token", "Tallystick-Challenge", "RateLimit", "RateLimit-Policy", "Retry-After", "Tallystick-Degraded"}, middleware.CORSExposeHeaders())

	t.Run("are nobody's to change", func(t *testing.T) {
		middleware.CORSAllowHeaders()[0] = "edited"
		middleware.CORSExposeHeaders()[0] = "edited"
		require.NotContains(t, append(middleware.CORSAllowHeaders(), middleware.CORSExposeHeaders()...), "edited")
	})
	t.Run("name every field that a script may want", func(t *testing.T) {
		h, _ := limited(t, contact(new(clock)))
		admitted(h, 5)
		resp := send(h)
		safelisted := []string{"Cache-Control", "Content-Type", "Content-Length"} // Fetch, 2.2.2
		forBrowsers := []string{"Vary", "Set-Cookie", "X-Content-Type-Options"}   // of no use to scripts, or hidden from them
		named := append(append(safelisted, forBrowsers...), middleware.CORSExposeHeaders()...)
		for name := range resp.Header {
			require.True(t, contains(named, name), "%s is sent: a script of another origin reads it only if CORSExposeHeaders has it", name)
		}
	})
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// Refusals need the CORS fields as much as anything else: a script could not
// read Retry-After without them.
func TestInsideOfCORS(t *testing.T) {
	h, spy := limited(t, contact(new(clock)))
	server, client := serve(t, allowing(h)), clientAt(t, "127.0.0.2")
	preflight := []option{method(http.MethodOptions), with("Origin", "https://app.example", "Access-Control-Request-Method", "POST")}
	for range 10 {
		require.Equal(t, http.StatusNoContent, over(t, client, server.URL, preflight...).StatusCode)
	}
	for range 5 {
		require.Equal(t, http.StatusOK, over(t, client, server.URL, with("Origin", "https://app.example")).StatusCode)
	}
	resp := over(t, client, server.URL, with("Origin", "https://app.example"))
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Equal(t, "https://app.example", resp.Header.Get("Access-Control-Allow-Origin"))
	require.Contains(t, resp.Header.Get("Access-Control-Expose-Headers"), "Retry-After")
	require.NotEmpty(t, resp.Header.Get("Retry-After"))
	require.EqualValues(t, 5, spy.calls.Load())
}
