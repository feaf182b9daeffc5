package middleware_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// browserSite returns a site with endpoints and the limiter behind it.
func browserSite(t *testing.T) (http.Handler, *middleware.Middleware) {
	t.Helper()
	m := newLimiter(t, challenging(new(clock), middleware.Newcomers))
	return m.Endpoints(), m
}

func TestAssetsAreServedUnderTwoNames(t *testing.T) {
	h, m := browserSite(t)
	require.Regexp(t, `^/tally/tally\.[0-9a-f]{16}\.js$`, m.ScriptURL())
	require.Regexp(t, `^/tally/tally\.[0-9a-f]{16}\.css$`, m.StyleURL())
	for _, test := range []struct{ plain, hashed, kind string }{
		{"/tally/tally.js", m.ScriptURL(), "text/javascript; charset=utf-8"},
		{"/tally/tally.css", m.StyleURL(), "text/css; charset=utf-8"},
		{"/tally/solver.js", solverURL(t, h, m), "text/javascript; charset=utf-8"},
	} {
		plain, hashed := send(h, method("GET"), path(test.plain)), send(h, method("GET"), path(test.hashed))
		body := bodyOf(t, plain)
		require.NotEmpty(t, body)
		require.Equal(t, body, bodyOf(t, hashed))
		for _, resp := range []*http.Response{plain, hashed} {
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Equal(t, test.kind, resp.Header.Get("Content-Type"))
			require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
			require.Empty(t, resp.Cookies())
		}
		require.Equal(t, "no-cache", plain.Header.Get("Cache-Control"))
		require.Equal(t, "public, max-age=31536000, immutable", hashed.Header.Get("Cache-Control"))
		require.Equal(t, http.StatusNotModified, send(h, method("GET"), path(test.plain), with("If-None-Match", plain.Header.Get("Etag"))).StatusCode)

		// Another version's name gets this version, which may not be kept for ever.
		other := regexp.MustCompile(`[0-9a-f]{16}`).ReplaceAllString(test.hashed, "0123456789abcdef")
		resp := send(h, method("GET"), path(other))
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, "no-cache", resp.Header.Get("Cache-Control"))
		require.Equal(t, http.StatusNotFound, send(h, method("GET"), path(strings.Replace(test.plain, ".", "x.", 1))).StatusCode)
		require.Equal(t, http.StatusMethodNotAllowed, send(h, method("POST"), path(test.plain)).StatusCode)
		require.Empty(t, bodyOf(t, send(h, method("HEAD"), path(test.plain))))
	}
	require.Empty(t, newLimiter(t, contact(new(clock))).ScriptURL())
}

// solverURL is what the script imports.
func solverURL(t *testing.T, h http.Handler, m *middleware.Middleware) string {
	t.Helper()
	found := regexp.MustCompile(`"\./(solver\.[0-9a-f]{16}\.js)"`).FindStringSubmatch(bodyOf(t, send(h, method("GET"), path(m.ScriptURL()))))
	require.Len(t, found, 2)
	return "/tally/" + found[1]
}

// TestAssetsAreSmall holds all files together, as a browser gets them from a server
// that compresses, below 6 KiB.
func TestAssetsAreSmall(t *testing.T) {
	h, m := browserSite(t)
	total := 0
	for _, url := range []string{m.ScriptURL(), solverURL(t, h, m), m.StyleURL()} {
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		require.NoError(t, err)
		_, err = w.Write([]byte(bodyOf(t, send(h, method("GET"), path(url)))))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		t.Logf("%s: %d bytes", url, b.Len())
		total += b.Len()
	}
	t.Logf("%d bytes in all", total)
	require.Less(t, total, 6<<10)
}

// TestForesight shows what a page is told before it takes work on.
func TestForesight(t *testing.T) {
	look := func(h http.Handler, options ...option) string {
		resp := send(h, append([]option{method("GET"), path("/tally/challenge")}, options...)...)
		body := bodyOf(t, resp)
		body = regexp.MustCompile(`"challenge":"[^"]+"`).ReplaceAllString(body, `"challenge":…`)
		return resp.Status[:3] + " " + strings.TrimSpace(body)
	}
	c := new(clock)
	h := newSite(t, challenging(c, middleware.WhenExhausted))
	require.Equal(t, `200 {"needed":false,"left":5,"challenge":…,"ttl":10,"work":16}`, look(h))
	require.Equal(t, 5, admitted(h, 9))
	require.Equal(t, `200 {"needed":true,"left":0,"challenge":…,"ttl":10,"work":16}`, look(h))
	tok := tokenIn(redeemed(h, solve(t, challengeIn(t, fetched(h)))))
	require.Equal(t, `200 {"needed":false,"left":5,"challenge":…,"ttl":10,"work":16}`, look(h, showing(tok)), "of its own")
	c.advance(time.Minute)
	require.Equal(t, `200 {"needed":false,"left":5,"challenge":…,"ttl":10,"work":16}`, look(h))

	h = newSite(t, challenging(new(clock), middleware.Newcomers))
	require.Equal(t, `200 {"needed":true,"challenge":…,"ttl":10,"work":16}`, look(h))

	h = newSite(t, challenging(new(clock), middleware.EveryRequest))
	require.Equal(t, `200 {"needed":true,"left":5,"challenge":…,"ttl":10,"work":16}`, look(h))
	for range 5 {
		require.Equal(t, http.StatusOK, send(h, proving(solve(t, challengeIn(t, fetched(h))))).StatusCode)
	}
	require.Regexp(t, `^429 .*quota-exceeded`, look(h), "no proof would help")

	cfg := challenging(new(clock), middleware.WhenExhausted)
	cfg.Quiet = middleware.QuietRetryAfterOnly
	h = newSite(t, cfg)
	require.Equal(t, `200 {"needed":false,"challenge":…,"ttl":10,"work":16}`, look(h))
}
