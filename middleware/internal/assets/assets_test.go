// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

var update = flag.Bool("update", false, "minify and compress the sources anew")

// minifier is the esbuild that .ci/need installs, in the version of the package-lock.json there.
const minifier = "../../../internal/npm/testdata/tools/node_modules/.bin/esbuild"

// minified returns a source as it is served. Imports stay as they are: each file is minified by itself. Nothing is
// rewritten for browsers that are older than what the sources need anyway.
func minified(t *testing.T, source string) []byte {
	t.Helper()
	if _, err := os.Stat(minifier); err != nil {
		kit.Unable(t, "there is no esbuild; .ci/need installs it: %v", err)
	}
	if _, err := exec.LookPath("node"); err != nil {
		kit.Unable(t, "esbuild needs node: %v", err)
	}
	cmd := exec.Command(minifier, source, "--minify", "--target=es2022", "--charset=utf8", "--log-level=warning")
	var problems bytes.Buffer
	cmd.Stderr = &problems
	text, err := cmd.Output()
	require.NoError(t, err, "%s", &problems)
	require.Empty(t, problems.String())
	return text
}

// minifiedLanguages returns the texts of all languages but English. They begin with an end of a line, so that all
// names follow one.
func minifiedLanguages(t *testing.T) []byte {
	t.Helper()
	sources := kit.Must(filepath.Glob("texts-*.js"))(t)
	require.NotEmpty(t, sources)
	all := []byte("\n")
	for _, source := range sources {
		text := minified(t, source)
		require.Equal(t, 1, bytes.Count(text, []byte("\n")), "%s", text)
		all = fmt.Appendf(all, "%s %s", source, text)
	}
	return all
}

// Bytes are compared after they are read, since compressors differ from one Go to the next. The header of gzip holds no
// name and no time, so that one Go makes the same bytes each time.
func TestServedAreTheSourcesMinified(t *testing.T) {
	all, _ := files()
	for _, f := range all {
		source := f.name
		if f.name == "solver.js" {
			source = "../../../pow/solver.js"
		}
		var text []byte
		if f.name == languages {
			text = minifiedLanguages(t)
		} else {
			text = minified(t, source)
		}
		if *update {
			var b bytes.Buffer
			w := kit.Must(gzip.NewWriterLevel(&b, gzip.BestCompression))(t)
			kit.Must(w.Write(text))(t)
			require.NoError(t, w.Close())
			require.NoError(t, os.WriteFile(filepath.Join("gzip", f.name+".gz"), b.Bytes(), 0o666))
			continue
		}
		require.Equal(t, string(text), f.plain(), "%s is not what is served. Run: go generate ./middleware/internal/assets", source)
	}
}
