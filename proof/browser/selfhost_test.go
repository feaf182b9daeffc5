// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCopiedFiles serves the files that docs/forms.md lists, and no other, from the page's
// own origin, which knows nothing of Tallystick, and calls an API of another one.
func TestCopiedFiles(t *testing.T) {
	browser := launch(t)
	doc, err := os.ReadFile("../../docs/forms.md")
	require.NoError(t, err)
	list := regexp.MustCompile("(?:`[a-z]+\\.(?:js|css)`,?(?: and)?\\s+){3,}").FindAllString(string(doc), -1)
	require.Len(t, list, 1, "lists of files")

	s := newSite(t, dear)
	s.redirects()
	dir := t.TempDir()
	for name := range strings.FieldsFuncSeq(strings.ReplaceAll(list[0], " and", ""), func(r rune) bool { return strings.ContainsRune("`, \n", r) }) {
		resp, err := http.Get(s.URL + "/tally/api/" + name)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), body, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "index.html"), []byte(`<!doctype html><title>copies</title>
<link rel="stylesheet" href="/static/tally.css">
<script type="module" src="/static/tally.js"></script>
<form><tally-check></tally-check></form>`), 0o600))
	files := http.StripPrefix("/static/", http.FileServer(http.Dir(dir)))
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; connect-src "+s.URL)
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(page.Close)

	b := open(t, browser, page.URL+"/static/")
	require.Equal(t, "flex", eval[string](b, `getComputedStyle(document.querySelector("tally-check")).display`))
	b.run("(() => {" + workers + "})()")
	b.module()
	made := b.works(s)
	for _, m := range made {
		require.Equal(t, page.URL+"/static/solver.js", m)
	}
	for _, r := range b.loaded(".js") {
		require.Contains(t, r, " "+page.URL+"/static/")
	}
}
