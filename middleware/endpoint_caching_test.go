// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// An outer middleware, or a cache, may have been told to store all of a site, errors and
// other methods too. Anybody can cause these errors, and none of them may stand in the
// place of a challenge, a purchase or a script.
func TestErrorsOfEndpointsAreNotStored(t *testing.T) {
	cfg := challenging(new(clock), middleware.WhenExhausted)
	h := newSite(t, cfg)
	fields := []string{"CDN-Cache-Control", "Example-Cache-Control", "X-Accel-Expires", "Edge-Control"}
	outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=600")
		for _, field := range fields {
			w.Header().Set(field, "600")
		}
		h.ServeHTTP(w, r)
	})
	crossSite := with("Sec-Fetch-Site", "cross-site")
	script := h.m.ScriptURL()
	for _, test := range []struct {
		name    string
		status  int
		method  string
		path    string
		options []option
	}{
		{"wrong path", 404, "GET", "/tally/nothing", nil},
		{"wrong path, POST", 404, "POST", "/tally/nothing", nil},
		{"below a path", 404, "GET", "/tally/challenge/", nil},
		{"no such asset", 404, "GET", "/tally/tally.0123.js", nil},
		{"challenge by POST", 405, "POST", "/tally/challenge", nil},
		{"redeem by GET", 405, "GET", "/tally/redeem", nil},
		{"redeem by HEAD", 405, "HEAD", "/tally/redeem", nil},
		{"asset by POST", 405, "POST", script, nil},
		{"redeem from another site", 403, "POST", "/tally/redeem", []option{crossSite}},
		{"redeem from another origin", 403, "POST", "/tally/redeem", []option{with("Origin", "https://evil.example")}},
		{"redeem without a proof", 403, "POST", "/tally/redeem", nil},
		{"challenge for nobody", 403, "GET", "/tally/challenge", []option{func(r *http.Request) { r.RemoteAddr = "@" }}},
		{"asset, another version wanted", 412, "GET", script, []option{with("If-Match", `"x"`)}},
		{"asset, no such range", 416, "GET", script, []option{with("Range", "bytes=1000000-")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			resp := send(outer, append(test.options, method(test.method), path(test.path))...)
			require.Equal(t, test.status, resp.StatusCode)
			require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
			for _, field := range fields {
				require.Empty(t, resp.Header.Values(field), field)
			}
		})
	}
	t.Run("assets are", func(t *testing.T) {
		for _, options := range [][]option{nil, {with("Range", "bytes=0-9")}} {
			resp := send(outer, append(options, method("GET"), path(script))...)
			require.Less(t, resp.StatusCode, 300)
			require.Equal(t, []string{"public, max-age=31536000, immutable"}, resp.Header.Values("Cache-Control"))
			resp = send(outer, append(options, method("GET"), path("/tally/tally.js"))...)
			require.Equal(t, []string{"no-cache"}, resp.Header.Values("Cache-Control"))
		}
	})
	t.Run("where there is no challenge", func(t *testing.T) {
		cfg.Challenge = nil
		require.NoError(t, h.m.Reconfigure(cfg))
		resp := send(outer, method("GET"), path("/tally/challenge"))
		require.Equal(t, http.StatusNotFound, resp.StatusCode)
		require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
	})
}
