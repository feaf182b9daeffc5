package mutants

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const sample = "./testdata/sample"

// TestTry breaks a sample in each way that ends differently.
func TestTry(t *testing.T) {
	for name, tt := range map[string]struct {
		mutant *Mutant
		want   outcome
		by     string
	}{
		"no mutant":          {nil, survived, ""},
		"a test notices":     {&Mutant{File: "sample.go", Old: "n <= limit", New: "n < limit"}, killed, "TestAllowed"},
		"no test notices":    {&Mutant{File: "sample.go", Old: "n < 0", New: "n < -1"}, survived, ""},
		"panics":             {&Mutant{File: "sample.go", Old: "return n <= limit", New: `panic("broken")`}, killed, "TestAllowed"},
		"does not compile":   {&Mutant{File: "sample.go", Old: "n <= limit", New: "limit"}, broken, ""},
		"unused variable":    {&Mutant{File: "sample.go", Old: "return n <= limit", New: "x := 1; return true"}, broken, ""},
		"test of another":    {&Mutant{File: "sample_test.go", Old: "Allowed(3, 3)", New: "Permitted()"}, broken, ""},
		"old text is gone":   {&Mutant{File: "sample.go", Old: "n << limit", New: "n"}, misplaced, ""},
		"old text is twice":  {&Mutant{File: "sample.go", Old: "return", New: "panic"}, misplaced, ""},
		"file is gone":       {&Mutant{File: "other.go", Old: "n", New: "m"}, unusable, ""},
		"change is harmless": {&Mutant{File: "sample.go", Old: "i++", New: "i += 1"}, survived, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := os.ReadFile(filepath.Join(sample, "sample.go"))
			require.NoError(t, err)
			r := try(sample, t.TempDir(), tt.mutant, time.Minute)
			require.Equal(t, tt.want, r.outcome, r.output)
			require.Equal(t, tt.by, r.by, r.output)
			after, err := os.ReadFile(filepath.Join(sample, "sample.go"))
			require.NoError(t, err)
			require.Equal(t, before, after, "the file itself is never touched")
		})
	}
}

// TestLoad: a list that could check less than it says is an error.
func TestLoad(t *testing.T) {
	const good = `{"name": "a", "file": "f.go", "old": "x", "new": "y", "why": "z"}`
	for name, tt := range map[string]struct {
		files []string
		want  string
	}{
		"good":          {[]string{"[" + good + "]"}, ""},
		"two files":     {[]string{"[" + good + "]", `[{"name": "b", "file": "f.go", "old": "x", "new": "", "why": "z"}]`}, ""},
		"none":          {nil, "no mutants"},
		"empty":         {[]string{"[]"}, "no mutants"},
		"not JSON":      {[]string{"{"}, "unexpected"},
		"unknown field": {[]string{`[{"name": "a", "flie": "f.go"}]`}, "unknown field"},
		"no old":        {[]string{`[{"name": "a", "file": "f.go", "new": "y", "why": "z"}]`}, "needs"},
		"no change":     {[]string{`[{"name": "a", "file": "f.go", "old": "y", "new": "y", "why": "z"}]`}, "needs"},
		"name twice":    {[]string{"[" + good + "," + good + "]"}, "two mutants"},
		"across files":  {[]string{"[" + good + "]", "[" + good + "]"}, "two mutants"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for i, text := range tt.files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".json"), []byte(text), 0o600))
			}
			specs, err := load(filepath.Join(dir, "*.json"))
			if tt.want == "" {
				require.NoError(t, err)
				require.Len(t, specs, len(tt.files))
			} else {
				require.ErrorContains(t, err, tt.want)
				require.Empty(t, specs)
			}
		})
	}
}

// TestRun goes the whole way, over a mutant that is killed.
func TestRun(t *testing.T) {
	Run(t, sample, []Mutant{{Name: "at the limit", File: "sample.go", Old: "n <= limit", New: "n < limit", Why: "the last request"}})
}

// TestRecursion: the tests of a mutant start no mutants.
func TestRecursion(t *testing.T) {
	t.Setenv(running, "1")
	ran := true
	t.Run("skips", func(t *testing.T) {
		defer func() { ran = !t.Skipped() }()
		Run(t, "./does-not-exist", nil)
	})
	require.False(t, ran)
}
