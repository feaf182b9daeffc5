// SPDX-License-Identifier: Apache-2.0

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
	type asset struct{ plain, hashed, kind string }
	all := []asset{{"/tally/tally.css", m.StyleURL(), "text/css; charset=utf-8"}, {"/tally/tally.js", m.ScriptURL(), "text/javascript; charset=utf-8"}}
	for _, file := range imports(bodyOf(t, send(h, method("GET"), path(m.ScriptURL())))) {
		require.Regexp(t, `^(fetch|texts|solver)\.[0-9a-f]{16}\.js$`, file)
		name, _, _ := strings.Cut(file, ".")
		all = append(all, asset{"/tally/" + name + ".js", "/tally/" + file, "text/javascript; charset=utf-8"})
	}
	require.Len(t, all, 5)
	for _, test := range all {
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
		// One range is served. Of several, each has a head of its own: whole is less.
		ranged := send(h, method("GET"), path(test.plain), with("Range", "bytes=0-9"))
		require.Equal(t, http.StatusPartialContent, ranged.StatusCode)
		require.Len(t, bodyOf(t, ranged), 10)
		for _, dear := range []option{with("Range", "bytes=0-0,1-1"), with("If-None-Match", strings.Repeat(`"",`, 85)+plain.Header.Get("Etag"))} {
			require.Equal(t, http.StatusOK, send(h, method("GET"), path(test.plain), dear).StatusCode)
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

// imports returns the files that a script imports, all of them beside it.
func imports(script string) (files []string) {
	for _, found := range regexp.MustCompile(`\b(?:import|from)\b\s*\(?\s*["'\x60]\./([^"'\x60]*)`).FindAllStringSubmatch(script, -1) {
		files = append(files, found[1])
	}
	return files
}

// TestAssetsAreTheSources requires that nothing is changed on the way to browsers: a
// minifier of our own once took the space out of a regular expression, and every test
// of the source passed. Only scripts under their hash differ, in the names of what they
// import.
func TestAssetsAreTheSources(t *testing.T) {
	h, m := browserSite(t)
	get := func(url string) string { return bodyOf(t, send(h, method("GET"), path(url))) }
	source := func(file string) string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(text)
	}
	require.Equal(t, pow.SolverJS(), source("../pow/solver.js"))
	require.Equal(t, source("internal/assets/tally.css"), get("/tally/tally.css"))
	require.Equal(t, get(m.StyleURL()), get("/tally/tally.css"))

	seen := map[string]bool{}
	var check func(name, pinned string, want ...string)
	check = func(name, pinned string, want ...string) {
		folder := "internal/assets/"
		if name == "solver.js" {
			folder = "../pow/"
		}
		plain, hashed := get("/tally/"+name), get(pinned)
		require.Equal(t, source(folder+name), plain)
		names, files := imports(plain), imports(hashed)
		require.Equal(t, want, names, name)
		require.Len(t, files, len(names))
		for i, file := range files {
			require.NotEqual(t, names[i], file)
			require.Equal(t, 1, strings.Count(plain, "./"+names[i]), "one place to change")
			plain = strings.ReplaceAll(plain, "./"+names[i], "./"+file)
			switch {
			case seen[file]:
			case names[i] == "fetch.js":
				check(names[i], "/tally/"+file, "solver.js")
			default:
				check(names[i], "/tally/"+file)
			}
			seen[file] = true
		}
		require.Equal(t, plain, hashed)
	}
	check("tally.js", m.ScriptURL(), "fetch.js", "texts.js", "solver.js")
	require.Len(t, seen, 3, "one solver, by whichever way")
}

// TestAssetsAreSmall holds all files together to what docs/browser.md says: 47 KB, and
// 18 KB as a browser gets them from a server that compresses.
func TestAssetsAreSmall(t *testing.T) {
	h, _ := browserSite(t)
	raw, compressed := 0, 0
	for _, file := range []string{"tally.js", "fetch.js", "texts.js", "solver.js", "tally.css"} {
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
	require.Less(t, raw, 47_500)
	require.Less(t, compressed, 18_400) // Go 1.27 compresses to some 40 more than 1.26
	text, err := os.ReadFile("../docs/browser.md")
	require.NoError(t, err)
	require.Contains(t, strings.Join(strings.Fields(string(text)), " "), "Five files, 47 KB, 18 KB compressed")
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
	require.Equal(t, `200 {"needed":false,"left":5,"carried":true,"challenge":…,"ttl":10,"work":24}`, look(h, showing(tok)), "of its own")
	c.advance(8 * time.Minute)
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
