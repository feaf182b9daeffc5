// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"compress/gzip"
	"fmt"
	"io"
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

// assets are the files for browsers.
var assets = []string{"tally.js", "fetch.js", "texts.js", "solver.js", "page.js", "tally.css", "page.css"}

func TestAssetsAreServedUnderTwoNames(t *testing.T) {
	h, m := browserSite(t)
	require.Regexp(t, `^/tally/[0-9a-f]{16}/tally\.js$`, m.ScriptURL())
	folder := strings.TrimSuffix(m.ScriptURL(), "tally.js")
	require.Equal(t, folder+"tally.css", m.StyleURL())
	compressed, plainly := with("Accept-Encoding", "gzip, deflate, br, zstd"), with("Accept-Encoding", "gzip;q=0, br")
	for _, name := range assets {
		kind := "text/javascript; charset=utf-8"
		if strings.HasSuffix(name, ".css") {
			kind = "text/css; charset=utf-8"
		}
		var tags []string
		var whole string
		for _, encoding := range []option{plainly, compressed} {
			plain, hashed := send(h, method("GET"), path("/tally/"+name), encoding), send(h, method("GET"), path(folder+name), encoding)
			for url, resp := range map[string]*http.Response{"/tally/" + name: plain, folder + name: hashed} {
				require.Equal(t, http.StatusOK, resp.StatusCode)
				require.Equal(t, kind, resp.Header.Get("Content-Type"))
				require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
				require.Equal(t, "Accept-Encoding", resp.Header.Get("Vary"))
				require.Empty(t, resp.Cookies())
				body := bodyOf(t, resp)
				require.Equal(t, strconv.Itoa(len(body)), resp.Header.Get("Content-Length"))
				if resp.Header.Get("Content-Encoding") == "gzip" {
					r, err := gzip.NewReader(strings.NewReader(body))
					require.NoError(t, err)
					text, err := io.ReadAll(r)
					require.NoError(t, err)
					require.Equal(t, whole, string(text))
					require.Less(t, len(body), len(whole))
				} else {
					require.NotEmpty(t, body)
					whole = body
				}
				again := send(h, method("GET"), path(url), encoding, with("If-None-Match", resp.Header.Get("Etag")))
				require.Equal(t, http.StatusNotModified, again.StatusCode)
				require.Equal(t, "Accept-Encoding", again.Header.Get("Vary"))
				require.Empty(t, again.Header.Get("Content-Encoding"))
				head := send(h, method("HEAD"), path(url), encoding)
				require.Equal(t, resp.Header.Get("Content-Length"), head.Header.Get("Content-Length"))
				require.Empty(t, bodyOf(t, head))
			}
			// One range is served. Of several, each has a head of its own: whole is less.
			ranged := send(h, method("GET"), path("/tally/"+name), encoding, with("Range", "bytes=0-9"))
			require.Equal(t, http.StatusPartialContent, ranged.StatusCode)
			require.Len(t, bodyOf(t, ranged), 10)
			for _, dear := range []option{with("Range", "bytes=0-0,1-1"), with("If-None-Match", strings.Repeat(`"",`, 85)+plain.Header.Get("Etag"))} {
				require.Equal(t, http.StatusOK, send(h, method("GET"), path("/tally/"+name), encoding, dear).StatusCode)
			}
			require.Equal(t, "no-cache", plain.Header.Get("Cache-Control"))
			require.Equal(t, "public, max-age=31536000, immutable", hashed.Header.Get("Cache-Control"))
			tags = append(tags, hashed.Header.Get("Etag"))
		}
		require.NotEqual(t, tags[0], tags[1], "each encoding has a tag of its own")

		// Another version's name gets this version, which may not be kept for ever.
		resp := send(h, method("GET"), path("/tally/0123456789abcdef/"+name))
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, "no-cache", resp.Header.Get("Cache-Control"))
		require.Empty(t, resp.Header.Get("Content-Encoding"), "who says nothing may not know it")
		for _, none := range []string{"x" + name, "0123456789abcdeg/" + name, "0123456789abcde/" + name, "/" + name, "0123456789abcdef/x/" + name} {
			require.Equal(t, http.StatusNotFound, send(h, method("GET"), path("/tally/"+none)).StatusCode, none)
		}
		require.Equal(t, http.StatusMethodNotAllowed, send(h, method("POST"), path("/tally/"+name)).StatusCode)
	}
	require.Empty(t, newLimiter(t, contact(new(clock))).ScriptURL())
}

// Scripts import each other by names that are relative. So one of a version imports what is of it, and a
// copy of the files works wherever it lies.
func TestAssetsImportWhatIsBesideThem(t *testing.T) {
	h, m := browserSite(t)
	folder, seen := strings.TrimSuffix(m.ScriptURL(), "tally.js"), map[string]bool{}
	for name := range strings.SplitSeq("tally.js page.js fetch.js texts.js solver.js", " ") {
		text := bodyOf(t, send(h, method("GET"), path(folder+name)))
		for _, found := range regexp.MustCompile(`\b(?:import|from)\b\s*\(?\s*["'\x60]([^"'\x60]*)`).FindAllStringSubmatch(text, -1) {
			file, beside := strings.CutPrefix(found[1], "./")
			require.True(t, beside, "%s: %s", name, found[1])
			require.Contains(t, assets, file)
			seen[file] = true
		}
	}
	require.Len(t, seen, 3, "fetch, texts, and one solver, by whichever way")
	require.Equal(t, pow.SolverJS(), bodyOf(t, send(h, method("GET"), path(folder+"solver.js"))))
}

// TestAssetsAreSmall holds the files of the element together to what docs/forms.md says: 47 KB, and
// 18 KB as browsers get them.
func TestAssetsAreSmall(t *testing.T) {
	h, _ := browserSite(t)
	raw, compressed := 0, 0
	for _, file := range []string{"tally.js", "fetch.js", "texts.js", "solver.js", "tally.css"} {
		whole := bodyOf(t, send(h, method("GET"), path("/tally/"+file)))
		small := bodyOf(t, send(h, method("GET"), path("/tally/"+file), with("Accept-Encoding", "gzip")))
		t.Logf("%s: %d bytes, %d compressed", file, len(whole), len(small))
		raw += len(whole)
		compressed += len(small)
	}
	t.Logf("%d bytes in all, %d compressed", raw, compressed)
	require.Less(t, raw, 47_500)
	require.Less(t, compressed, 18_400)
	text, err := os.ReadFile("../docs/forms.md")
	require.NoError(t, err)
	for _, size := range []int{raw, compressed} {
		require.Contains(t, string(text), fmt.Sprintf("%.0f KB", float64(size)/1000), "the figure of the page is old")
	}
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
	cfg.Quiet = true
	h = newSite(t, cfg)
	require.Equal(t, `200 {"needed":false,"challenge":…,"ttl":10,"work":16}`, look(h))
}
