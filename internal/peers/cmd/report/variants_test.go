// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What the variants change is there.
func TestVariantsFindTheirPlace(t *testing.T) {
	root, err := findRoot(t.Context())
	require.NoError(t, err)
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		all, err := readVariants(f, root)
		require.NoError(t, err)
		require.NotEmpty(t, all, f)
	}
	for text, report := range map[string]string{
		`[{"name": "x", "file": "go.mod", "old": "require", "new": ""}]`: "times, not once",
		`[{"name": "x", "file": "none"}]`:                                "no such file",
		`{`:                                                              "unexpected end",
	} {
		f := filepath.Join(t.TempDir(), "v.json")
		require.NoError(t, os.WriteFile(f, []byte(text), 0o600))
		_, err := readVariants(f, root)
		require.ErrorContains(t, err, report)
	}
}

func TestRename(t *testing.T) {
	require.Equal(t, "BenchmarkCounter/counter=file~x/keys=1\t2\nBenchmarkCounterKey/counter=file~x\t3\nBenchmarkOthers\t1\n",
		string(rename([]byte("BenchmarkCounter/counter=file/keys=1\t2\nBenchmarkCounterKey/counter=file\t3\nBenchmarkOthers\t1\n"), "~x")))
}

// A variant is measured beside what it changes.
func TestVariantsAreCompared(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command several times")
	}
	const one = `[{"name": "x", "file": "middleware/exact/file/write.go", "old": "runtime.Gosched()", "new": "_ = runtime.Gosched"}]`
	against := filepath.Join(t.TempDir(), "v.json")
	require.NoError(t, os.WriteFile(against, []byte(one), 0o600))
	o := options{only: "counters", count: 1, span: time.Second, keys: 16, rows: "^file$", against: against, dir: t.TempDir()}
	var stdout strings.Builder
	require.NoError(t, run(t.Context(), o, &stdout, io.Discard))
	require.Contains(t, stdout.String(), "| `file~x` | 16 | ")
	require.Contains(t, stdout.String(), "- `file` beside `file~x` (")
}
