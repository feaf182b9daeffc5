// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/npm"
	"github.com/tallystick/tallystick/proof/kit"
)

// bundled bundles the programs of testdata/frameworks with the npm package. It returns the folder of the
// programs for browsers, and what a server renders for each framework.
func bundled(t *testing.T) (dist string, rendered map[string]string) {
	t.Helper()
	frameworks := kit.Must(filepath.Abs("testdata/frameworks"))(t)
	esbuild := kit.Must(filepath.Abs("../../internal/npm/testdata/tools/node_modules/.bin/esbuild"))(t)
	for _, tool := range []string{esbuild, frameworks + "/node_modules"} {
		if _, err := os.Stat(tool); err != nil {
			kit.Unable(t, ".ci/need installs it: %v", err)
		}
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(frameworks+"/app")))
	require.NoError(t, npm.Write(filepath.Join(dir, "node_modules", "@tallystick", "tally"), "1.2.3", "../.."))
	run := func(name string, args ...string) []byte {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		cmd.Env = append(os.Environ(), "NODE_PATH="+frameworks+"/node_modules")
		out, err := cmd.Output()
		require.NoError(t, err, "%s", out)
		return out
	}
	run("node", frameworks+"/compile.mjs", dir)
	options := []string{"--bundle", "--format=esm", `--define:process.env.NODE_ENV="production"`, "--log-level=error", "--outdir=dist"}
	run(esbuild, append(options, "react.js", "preact.js", "vue.js", "svelte.js", "lit.js", "solver=@tallystick/tally/solver.js")...)
	run(esbuild, append(options, "server.js", "--platform=node", "--format=cjs", "--out-extension:.js=.cjs")...)
	require.NoError(t, json.Unmarshal(run("node", "dist/server.cjs"), &rendered))
	return filepath.Join(dir, "dist"), rendered
}

// TestFrameworks has each framework render the element, assign each public name and take it away again,
// and then send a form with a proof: in a page that is empty, and in one that a server has rendered.
func TestFrameworks(t *testing.T) {
	browser := launch(t)
	dist, rendered := bundled(t)
	for _, test := range []struct {
		name, query string
		hydrates    bool
	}{
		{"react", "", false}, {"react", "?action", false}, {"react", "", true},
		{"preact", "", false}, {"preact", "", true},
		{"vue", "", false}, {"vue", "", true},
		{"svelte", "", false}, {"svelte", "", true},
		{"lit", "", false},
	} {
		name := test.name + test.query
		if test.hydrates {
			name += ", hydrated"
		}
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.mux.Handle("GET /app/", http.StripPrefix("/app/", http.FileServer(http.Dir(dist))))
			body := ""
			if test.hydrates {
				body = rendered[test.name]
				require.Contains(t, body, "<tally-check")
			}
			s.mux.Handle("GET /page", static("html", `<!doctype html><html lang="en"><title>page</title><script src="/watch.js"></script><div id="app">`+
				body+`</div><script type="module" src="/app/`+test.name+`.js"></script>`))
			b := open(t, browser, s.URL+"/page"+test.query)
			names := `(() => {
				const e = ` + element + `;
				return ["endpoint", "form", "auto", "cost", "max-work", "maxwork", "disabled"].filter((name) => e.hasAttribute(name))
					.map((name) => name + "=" + e.getAttribute(name)).concat(e.endpoint, e.form.id, e.auto, String(e.cost), String(e.maxWork), String(e.disabled));
			})()`
			b.wait(`window.rendered && ` + element + `?.dataset.state === "idle"`)
			work := "max-work=134217728"
			got := eval[[]string](b, names)
			if test.hydrates && got[4] != work {
				work = "maxwork=134217728" // a parser knows no capitals
			}
			require.Equal(t, []string{
				"endpoint=/tally/signup/", "form=signup", "auto=focus", "cost=2", work, "disabled=",
				"/tally/signup/", "signup", "focus", "2", "134217728", "true",
			}, got)
			b.run(`update()`)
			require.Equal(t, []string{
				"endpoint=/tally/signup/", "form=signup", "max-work=67108864",
				"/tally/signup/", "signup", "", "1", "67108864", "false",
			}, eval[[]string](b, names))
			if test.name == "react" {
				require.Empty(t, eval[[]string](b, `failed`))
			}
			b.send("#send")
			require.Len(t, b.loaded("/redeem"), 1)
			require.Len(t, s.got(), 1)
			require.True(t, s.got()[0].own)
			require.Equal(t, []string{"hello"}, s.got()[0].values["message"])
			s.clean()
		})
	}
}
