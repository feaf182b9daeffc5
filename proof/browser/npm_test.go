// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/clienttest"
	"github.com/tallystick/tallystick/internal/npm"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

// workers notes what workers a page starts, and which of them fail.
const workers = `
window.made = [];
window.Worker = class extends Worker {
	constructor(url, ...more) {
		super(url, ...more);
		made.push(String(url));
		this.addEventListener("error", () => made.push("failed"));
	}
};
`

// works has tallyFetch call the API of a site until it has had to work, and returns the workers that it made.
func (b *tab) works(s *site) []string {
	b.t.Helper()
	for range 3 { // two are for nothing
		require.Equal(b.t, "200 here", eval[string](b, `tallyFetch("`+s.URL+`/redirect/api", { method: "POST" }).then(async (r) => r.status + " " + await r.text())`))
	}
	made := eval[[]string](b, "made")
	require.NotEmpty(b.t, made)
	return made
}

// TestBundles has the npm package in a page, in every way in which its README says that it
// gets there. The page is of another origin than the API.
func TestBundles(t *testing.T) {
	browser := launch(t)
	app := kit.Must(filepath.Abs("../../internal/npm/testdata/app"))(t)
	tool := func(t *testing.T, dir, name string, args ...string) {
		t.Helper()
		file := kit.Must(filepath.Abs("../../internal/npm/testdata/tools/node_modules/.bin/" + name))(t)
		if _, err := os.Stat(file); err != nil {
			kit.Unable(t, "there is no %s; .ci/need installs it: %v", name, err)
		}
		cmd := exec.Command(file, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	esbuild := func(entries ...string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			tool(t, dir, "esbuild", append(entries, "--bundle", "--format=esm", "--outdir=dist")...)
			require.NoError(t, os.Rename(filepath.Join(dir, "index.html"), filepath.Join(dir, "dist", "index.html")))
		}
	}
	for name, test := range map[string]struct {
		build  func(t *testing.T, dir string) // from dir into dir/dist
		worker string                         // how its URL begins; "" for none that works
	}{
		"no bundler": {func(t *testing.T, dir string) {
			dist := filepath.Join(dir, "dist")
			require.NoError(t, os.Rename(filepath.Join(dir, "node_modules", "@tallystick", "tally"), dist))
			require.NoError(t, os.Rename(filepath.Join(dir, "index.html"), filepath.Join(dist, "index.html")))
			main := `import { tallyFetch } from "./tally.js"; globalThis.tallyFetch = tallyFetch; globalThis.started = 1; document.title = "started";`
			require.NoError(t, os.WriteFile(filepath.Join(dist, "main.js"), []byte(main), 0o600))
		}, "/static/solver.js"},
		"esbuild":         {esbuild("main=main.js", "solver=@tallystick/tally/solver.js"), "/static/solver.js"},
		"esbuild's alone": {esbuild("main.js"), ""},
		"vite": {func(t *testing.T, dir string) {
			tool(t, dir, "vite", "build", "--base", "./", "--logLevel", "error")
		}, "/static/assets/solver-"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, dear)
			s.redirects()
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(app)))
			require.NoError(t, npm.Write(filepath.Join(dir, "node_modules", "@tallystick", "tally"), "1.2.3", "../.."))
			test.build(t, dir)

			var again atomic.Bool
			files := http.StripPrefix("/static/", http.FileServer(http.Dir(filepath.Join(dir, "dist"))))
			page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Security-Policy", "default-src 'self'; connect-src 'self' "+s.URL)
				switch r.URL.Path {
				case "/workers.js":
					static("javascript", workers)(w, r)
				case "/started-in-a-worker":
					again.Store(true)
				default:
					files.ServeHTTP(w, r)
				}
			}))
			t.Cleanup(page.Close)

			b := open(t, browser, page.URL+"/static/")
			b.wait(`document.title === "started"`)
			made := b.works(s)
			require.Equal(t, test.worker == "", slices.Contains(made, "failed"), "%q", made)
			for _, url := range made {
				if test.worker != "" {
					require.True(t, strings.HasPrefix(url, page.URL+test.worker), "%q", made)
				}
			}
			require.False(t, again.Load(), "the page's program runs in a worker too")
			require.Equal(t, 1, eval[int](b, "started"))
		})
	}
}

// TestTallyFetchDoesItsPart has tallyFetch do the cases of clienttest, in a page of the same
// origin: by cookies, as it does there, and by fields.
func TestTallyFetchDoesItsPart(t *testing.T) {
	browser := launch(t)
	for name, options := range map[string]string{"cookies": "{}", "fields": "{ header: true }"} {
		t.Run(name, func(t *testing.T) {
			script := kit.Must(clienttest.New(nil))(t)
			limit := newLimit(t, "page", 1, func(c *middleware.Config) { c.Challenge = &middleware.Challenge{Path: "/tally/"} })
			mux := http.NewServeMux()
			mux.Handle("/", script)
			mux.Handle("/tally/", limit.Endpoints())
			mux.Handle("GET /page", static("html", "<!doctype html><title>page</title>"))
			server := httptest.NewServer(mux)
			defer server.Close()
			open(t, browser, server.URL+"/page").run(`(async () => {
				const { tallyFetch } = await import("/tally/tally.js");
				for (const { requests } of await (await fetch("/cases")).json())
					for (const { method, url, body } of requests)
						await tallyFetch(url, { method, body: body || undefined }, ` + options + `).then((r) => r.text()).catch(() => {});
			})()`)
			report := script.Report()
			require.True(t, report.OK(), "%s", report)
			require.LessOrEqual(t, report.Returned, 3, "%s", report)
		})
	}
}
