// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

func browserSite(t *testing.T) (http.Handler, *middleware.Middleware) {
	t.Helper()
	m := newLimiter(t, challenging(new(clock), middleware.Newcomers))
	return m.Endpoints(), m
}

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
				requireHeader(t, resp, "Content-Type", kind, "X-Content-Type-Options", "nosniff", "Vary", "Accept-Encoding")
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
				again := requireStatus(t, http.StatusNotModified, send(h, method("GET"), path(url), encoding, with("If-None-Match", resp.Header.Get("Etag"))))
				requireHeader(t, again, "Vary", "Accept-Encoding", "Content-Encoding", "")
				head := send(h, method("HEAD"), path(url), encoding)
				require.Equal(t, resp.Header.Get("Content-Length"), head.Header.Get("Content-Length"))
				require.Empty(t, bodyOf(t, head))
			}
			// One range is served. Of several, each has a head of its own: whole is less.
			ranged := requireStatus(t, http.StatusPartialContent, send(h, method("GET"), path("/tally/"+name), encoding, with("Range", "bytes=0-9")))
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
		resp := requireStatus(t, http.StatusOK, send(h, method("GET"), path("/tally/0123456789abcdef/"+name)))
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
		text = strings.ReplaceAll(text, "import(`./texts-${", "") // see TestOneFileForEachLanguage
		for _, found := range regexp.MustCompile(`\b(?:import|from)\b\s*\(?\s*["'\x60]([^"'\x60]*)`).FindAllStringSubmatch(text, -1) {
			file, beside := strings.CutPrefix(found[1], "./")
			require.True(t, beside, "%s: %s", name, found[1])
			require.Contains(t, assets, file)
			seen[file] = true
		}
	}
	require.Len(t, seen, 3, "fetch, texts, and one solver, by whichever way")
}

// TestOneFileForEachLanguage: a browser gets the texts of its page's language, and of no other. They are too small to be
// worth compressing.
func TestOneFileForEachLanguage(t *testing.T) {
	h, m := browserSite(t)
	folder := strings.TrimSuffix(m.ScriptURL(), "tally.js")
	seen := map[string]bool{}
	for tag := range strings.SplitSeq("de fr es it pt nl pl ja zh he ru ko tr uk", " ") {
		name := "texts-" + tag + ".js"
		plain := requireTarget(t, h, "/tally/"+name, "no-cache")
		require.Equal(t, plain, requireTarget(t, h, folder+name, "public, max-age=31536000, immutable"))
		require.Regexp(t, `(?s)^export default *\{idle:"",working:"[^"]+",.*cancel:"[^"]+"\};$`, plain)
		require.Less(t, len(plain), 1400, tag)
		require.False(t, seen[plain], tag)
		seen[plain] = true
	}
	for _, none := range []string{"en", "xx", "", "d", "DE", "de export", "de\nfr", ".", "de.js", "de-AT"} {
		target := "/tally/" + url.PathEscape("texts-"+none+".js")
		require.Equal(t, http.StatusNotFound, send(h, method("GET"), path(target)).StatusCode, none)
	}
	require.Equal(t, http.StatusNotFound, send(h, method("GET"), path("/tally/texts-de")).StatusCode)
}

// requireTarget returns a script that is served as it is, with the same tag each time.
func requireTarget(t *testing.T, h http.Handler, target, cached string) string {
	t.Helper()
	first := requireStatus(t, http.StatusOK, send(h, method("GET"), path(target), with("Accept-Encoding", "gzip")))
	require.Empty(t, first.Header.Get("Content-Encoding"))
	require.Equal(t, cached, first.Header.Get("Cache-Control"))
	require.Equal(t, "text/javascript; charset=utf-8", first.Header.Get("Content-Type"))
	tag := first.Header.Get("Etag")
	require.NotEmpty(t, tag)
	requireStatus(t, http.StatusNotModified, send(h, method("GET"), path(target), with("If-None-Match", tag)))
	return bodyOf(t, first)
}

// TestAssetsAreSmall holds the files of the element together to what docs/forms.md says: 24 KB, and
// 11 KB as browsers get them. A language takes 1 KB more.
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
	require.Less(t, raw, 23_900)
	require.Less(t, compressed, 10_900)
	text, err := os.ReadFile("../docs/forms.md")
	require.NoError(t, err)
	for _, size := range []int{raw, compressed} {
		figure := fmt.Sprintf("%.0f KB", float64(size)/1000)
		require.True(t, strings.Contains(string(text), figure), "docs/forms.md does not say %s", figure)
	}
}
