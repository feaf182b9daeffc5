// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"bytes"
	"compress/gzip"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "compress the sources anew")

// What is served is what was tested: a minifier of our own once took the space out of a regular
// expression, and every test of the source passed. Bytes are compared after they are read, since compressors differ
// from one Go to the next.
func TestCompressedAreTheSources(t *testing.T) {
	for _, f := range NewSet().files {
		source := f.name
		if f.name == "solver.js" {
			source = "../../../pow/solver.js"
		}
		text, err := os.ReadFile(source)
		require.NoError(t, err)
		if *update {
			var b bytes.Buffer
			w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
			require.NoError(t, err)
			_, err = w.Write(text)
			require.NoError(t, err)
			require.NoError(t, w.Close())
			require.NoError(t, os.WriteFile(filepath.Join("gzip", f.name+".gz"), b.Bytes(), 0o666))
			continue
		}
		require.Equal(t, string(text), f.plain(), "%s is not what is served. Run: go generate ./middleware/internal/assets", source)
	}
}
