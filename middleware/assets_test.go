package middleware_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
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
	solver := "/tally/" + imports(t, bodyOf(t, send(h, method("GET"), path(m.ScriptURL()))))
	require.Regexp(t, `^/tally/solver\.[0-9a-f]{16}\.js$`, solver)
	for _, test := range []struct{ plain, hashed, kind string }{
		{"/tally/tally.js", m.ScriptURL(), "text/javascript; charset=utf-8"},
		{"/tally/tally.css", m.StyleURL(), "text/css; charset=utf-8"},
		{"/tally/solver.js", solver, "text/javascript; charset=utf-8"},
	} {
		plain, hashed := send(h, method("GET"), path(test.plain)), send(h, method("GET"), path(test.hashed))
		for name, resp := range map[string]*http.Response{test.plain: plain, test.hashed: hashed} {
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Equal(t, test.kind, resp.Header.Get("Content-Type"))
			require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
			require.Empty(t, resp.Header.Get("Content-Encoding"))
			require.Empty(t, resp.Cookies())
			body := bodyOf(t, resp)
			require.NotEmpty(t, body)
			require.Equal(t, strconv.Itoa(len(body)), resp.Header.Get("Content-Length"))
			sum := sha256.Sum256([]byte(body))
			require.Equal(t, fmt.Sprintf("%q", hex.EncodeToString(sum[:8])), resp.Header.Get("Etag"), "of these very bytes")
			require.Equal(t, http.StatusNotModified, send(h, method("GET"), path(name), with("If-None-Match", resp.Header.Get("Etag"))).StatusCode)
		}
		require.Equal(t, "no-cache", plain.Header.Get("Cache-Control"))
		require.Equal(t, "public, max-age=31536000, immutable", hashed.Header.Get("Cache-Control"))
		require.Contains(t, test.hashed, "."+strings.Trim(hashed.Header.Get("Etag"), `"`)+".", "the name says the same")

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

// imports returns the one file that a script imports.
func imports(t *testing.T, script string) string {
	t.Helper()
	found := regexp.MustCompile(`\b(?:import|from)\b\s*\(?\s*["'\x60]([^"'\x60]*)`).FindAllStringSubmatch(script, -1)
	require.Len(t, found, 1)
	file, beside := strings.CutPrefix(found[0][1], "./")
	require.True(t, beside, "beside the script: %s", found[0][1])
	return file
}

// TestAssetsAreTheSources requires that nothing is changed on the way to browsers: a
// minifier of our own once took the space out of a regular expression, and every test
// of the source passed. Only the script under its hash differs, in the name of what it
// imports.
func TestAssetsAreTheSources(t *testing.T) {
	h, m := browserSite(t)
	get := func(url string) string { return bodyOf(t, send(h, method("GET"), path(url))) }
	source := func(file string) string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(text)
	}
	script, solver := source("internal/assets/tally.js"), get("/tally/solver.js")
	require.Equal(t, script, get("/tally/tally.js"))
	require.Equal(t, pow.SolverJS(), solver)
	require.Equal(t, source("../pow/solver.js"), solver)
	require.Equal(t, source("internal/assets/tally.css"), get("/tally/tally.css"))
	require.Equal(t, "solver.js", imports(t, script))

	pinned := get(m.ScriptURL())
	file := imports(t, pinned)
	require.NotEqual(t, "solver.js", file)
	require.Equal(t, solver, get("/tally/"+file))
	require.Equal(t, 1, strings.Count(script, "./solver.js"), "one place to change")
	require.Equal(t, strings.ReplaceAll(script, "./solver.js", "./"+file), pinned)
	require.Equal(t, get(m.StyleURL()), get("/tally/tally.css"))
}

// TestAssetsAreSmall holds all files together to what docs/browser.md says: 26 KB, and
// 10 KB as a browser gets them from a server that compresses.
func TestAssetsAreSmall(t *testing.T) {
	h, _ := browserSite(t)
	raw, compressed := 0, 0
	for _, file := range []string{"tally.js", "solver.js", "tally.css"} {
		body := bodyOf(t, send(h, method("GET"), path("/tally/"+file)))
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.DefaultCompression)
		require.NoError(t, err)
		_, err = w.Write([]byte(body))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		t.Logf("%s: %d bytes, %d compressed", file, len(body), b.Len())
		raw += len(body)
		compressed += b.Len()
	}
	t.Logf("%d bytes in all, %d compressed", raw, compressed)
	require.Less(t, raw, 26_500)
	require.Less(t, compressed, 10_500)
	text, err := os.ReadFile("../docs/browser.md")
	require.NoError(t, err)
	require.Contains(t, strings.Join(strings.Fields(string(text)), " "), "Three files, 26 KB, 10 KB compressed")
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
	require.Equal(t, `200 {"needed":false,"left":5,"carried":true,"challenge":…,"ttl":10,"work":16}`, look(h, showing(tok)), "of its own")
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
