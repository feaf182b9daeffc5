// SPDX-License-Identifier: Apache-2.0

// The tests of this folder hold the repository to its own rules: which package imports
// which, no cycle among the files of a package, licences, and what a program grows by.
package repository_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// What Tallystick may add to a program that has net/http already, and what a WebAssembly
// program with it may weigh; the free plan of the best known host takes 3 MB. The last to come were, with some
// 60 KB, what an attack had found: debts of buckets, sales that are shared, lines that give way, load
// that is told from outages; with 33 KB the words of seven more languages, in which there is no code to save; and, with
// 35 KB, what tells of secrets and clocks that differ, and lists and moves accounts. What reads the compressed
// scripts weighs as much as they have lost. With 25 KB came shares of all instances, who makes an instance busy, a
// price that is seen, and what a counter is told that may begin anew; with 8 KB tokens that are known by sight, and charges
// that lie in their owner's window; with 4 KB, compressed, the element in frameworks, old browsers, frames and shadow roots.
// With 8 KB came remedies of every line of the log, and charges that an inner policy gives back. With 29 KB went what keeps a
// form, which programs import if they want it; five more languages came for less.
// The next to come takes something away.
const (
	// Instances that hear each other cost 28 KB of these, and the bounds of a configuration 15 KB. With 164 KB
	// went golang-jwt, which only programs that read tokens with it link;
	// with 73 KB came languages apart, units of limits, windows of the calendar, and proofs that peers hear of;
	// with 4 KB a Host that a proxy changes, which is told, and what a reload begins anew.
	mostAdded = 1_758_000 // bytes, linux/amd64
	mostWasm  = 2_407_000 // bytes, js/wasm, by gzip -9
)

// heavier is what to do where a program weighs more than that.
const heavier = "every program with Tallystick has grown. To see by what: go build -o form ./proof/repository/testdata/weight/form,\n" +
	"and go tool nm -size -sort size form; a new import of the standard library is the usual reason. Take as much away\n" +
	"elsewhere; raise the number only with a line above it that says what came for it."

// buildStripped builds a program below proof/repository/testdata/weight as one is built to be small, and
// returns the file. What a machine or a user sets elsewhere must not count: the target is
// given, cgo and the workspace are off.
func buildStripped(t *testing.T, program, goos, goarch string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), program)
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, "./proof/repository/testdata/weight/"+program)
	build.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "GOAMD64=v1", "GOWASM=", "GOEXPERIMENT=",
		"GOFIPS140=off", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return file
}

func size(t *testing.T, file string) int64 {
	t.Helper()
	info := kit.Must(os.Stat(file))(t)
	return info.Size()
}

// zipped returns how much a file weighs by gzip -9, which is what hosts measure by. Go's
// own writer makes it a hundredth larger.
func zipped(t *testing.T, file string) int64 {
	t.Helper()
	if _, err := exec.LookPath("gzip"); err != nil {
		kit.Unable(t, "there is no gzip: %v", err)
	}
	out := kit.Must(exec.Command("gzip", "-9", "-c", file).Output())(t)
	return int64(len(out))
}

// Both programs use most of what middleware has. They are built for the same two targets
// on every machine, so that the figures are everybody's.
func TestWeight(t *testing.T) {
	atRoot(t)
	kit.Outside(t)
	kit.OnlyWhole(t, "builds programs for two targets, the standard library first")
	t.Run("beside net/http", func(t *testing.T) {
		plain := size(t, buildStripped(t, "plain", "linux", "amd64"))
		form := size(t, buildStripped(t, "form", "linux", "amd64"))
		t.Logf("net/http %d, with Tallystick %d: %d more", plain, form, form-plain)
		require.Greater(t, form, plain)
		require.LessOrEqual(t, form-plain, int64(mostAdded), heavier)
	})
	t.Run("as WebAssembly", func(t *testing.T) {
		file := buildStripped(t, "handler", "js", "wasm")
		zip := zipped(t, file)
		t.Logf("%d, zipped %d", size(t, file), zip)
		require.LessOrEqual(t, zip, int64(mostWasm), heavier)
	})
}

// linked are the modules that come with a package beside our own: what its users take on
// trust.
var linked = map[string][]string{
	"storeless":           {},
	"pow":                 {},
	"token":               {jwt},
	"middleware":          {},
	"middleware/exact":    {},
	"middleware/keptform": {},
	"middleware/client":   {},
	"middleware/policyfile": {
		validator,
		"github.com/gabriel-vasile/mimetype", "github.com/go-playground/locales", "github.com/go-playground/universal-translator",
		"github.com/leodido/go-urn", "golang.org/x/crypto", "golang.org/x/sys", "golang.org/x/text",
	},
}

func TestLinkedModules(t *testing.T) {
	atRoot(t)
	kit.Outside(t)
	for pkg, want := range linked {
		t.Run(pkg, func(t *testing.T) {
			list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./"+pkg)
			list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "GOFLAGS=") // a workspace changes versions, which are not asked
			out := kit.Must(list.Output())(t)
			modules := strings.Fields(string(out))
			slices.Sort(modules)
			require.ElementsMatch(t, append(want, module), slices.Compact(modules),
				"users of the package take other modules on trust than before: do without, or change the table above and say why in the commit")
		})
	}
}

// Every Go file of every module says by which licence it may be copied, because files are
// copied without their LICENSE. REUSE.toml says it of the others, which browsers load.
func TestFilesNameTheirLicence(t *testing.T) {
	atRoot(t)
	text := kit.Must(os.ReadFile("LICENSE"))(t)
	require.Contains(t, string(text), "Apache License\n                           Version 2.0")
	among, err := os.ReadFile("LICENSES/Apache-2.0.txt") // where "reuse lint" looks for it
	require.NoError(t, err)
	require.Equal(t, string(text), string(among))
	n := 0
	require.NoError(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		n++
		src := kit.Must(os.ReadFile(name))(t)
		require.True(t, strings.HasPrefix(string(src), "// SPDX-License-Identifier: Apache-2.0\n\n"), name)
		return nil
	}))
	require.Greater(t, n, 500)
}

// The reference of each package that others import shows how it is used, by code that compiles.
func TestPackagesHaveExamples(t *testing.T) {
	atRoot(t)
	for line := range strings.Lines(output(t, "go", "run", "./.ci/names.go", ".")) {
		pkg, counts, _ := strings.Cut(strings.TrimSpace(line), " ")
		if pkg == "all" || counts == "0 0" {
			continue
		}
		tests := kit.Must(filepath.Glob(pkg + "/*_test.go"))(t)
		found := false
		for _, file := range tests {
			text := kit.Must(os.ReadFile(file))(t)
			found = found || strings.Contains(string(text), "\nfunc Example")
		}
		require.True(t, found, "%s has no Example: its first is what a caller does first", pkg)
	}
}

// Which form of a test is wanted is for the kit to say, in one place: a test that asks for -short runs its whole form by
// plain "go test". The module of the browser has no other form, and mutants are tried in none with -short.
func TestFormsAreAsked(t *testing.T) {
	atRoot(t)
	asked, mayAsk := "testing."+"Short()", []string{"proof/browser/chromium_test.go", "proof/mutants/run_test.go"}
	require.NoError(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go") || slices.Contains(mayAsk, filepath.ToSlash(name)):
			return nil
		}
		src := kit.Must(os.ReadFile(name))(t)
		require.NotContains(t, string(src), asked, "%s: use kit.Whole or kit.OnlyWhole", name)
		return nil
	}))
}

// atRoot has a test name files as the repository does. Not in TestMain: the go command notes
// which files a test reads only while it runs, and would say "(cached)" of files that have changed.
func atRoot(t *testing.T) {
	t.Helper()
	t.Chdir("../..")
}
