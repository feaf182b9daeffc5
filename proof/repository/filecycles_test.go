// SPDX-License-Identifier: Apache-2.0

package repository_test

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// A file may use what another file of its package declares, but not the other way round
// too, by whatever detour: then a reader can take up one file after the other.
func TestNoFileCycles(t *testing.T) {
	atRoot(t)
	for _, module := range modules(t) {
		t.Run(module, func(t *testing.T) {
			t.Chdir(module)
			var importer types.Importer = nowhere{}
			if kit.Whole() && !kit.Race { // the race detector sees nothing of what is built
				importer = exportData(t)
			}
			packages := map[string][]string{}
			for _, file := range goFiles(t) {
				// One name can be declared once for each build tag.
				built := kit.Must(build.Default.MatchFile(path.Split(file)))(t)
				if built && !strings.HasSuffix(file, "_test.go") {
					packages[path.Dir(file)] = append(packages[path.Dir(file)], file)
				}
			}
			require.NotEmpty(t, packages)
			if module == "." {
				require.Contains(t, packages, "middleware")
			}
			for dir, files := range packages {
				assert.Empty(t, cycles(fileUses(t, importer, dir, files)), "%s: files that need each other", dir)
			}
		})
	}
}

// The test above would see a cycle.
func TestFileCyclesAreSeen(t *testing.T) {
	atRoot(t)
	uses := map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": nil, "e": {"a"}}
	require.Equal(t, [][]string{{"a", "b", "c"}}, cycles(uses))
	dir := t.TempDir()
	var files []string
	for name, text := range map[string]string{
		"one.go": "package p\ntype T struct{}\nfunc (T) m() { f() }\n",
		"two.go": "package p\nfunc f() { T{}.m() }\n",
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		files = append(files, file)
	}
	require.Len(t, cycles(fileUses(t, importer.Default(), "p", files)), 1)
}

// modules returns the folders of this repository that have a go.mod.
func modules(t *testing.T) (dirs []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == "go.mod":
			dirs = append(dirs, filepath.ToSlash(filepath.Dir(name)))
		case d.IsDir() && (d.Name() == "testdata" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		}
		return nil
	}))
	require.Contains(t, dirs, "proof/lab")
	return dirs
}

// fileUses returns for each file the files whose declarations it uses: functions,
// types, variables, constants, and methods, but no fields.
func fileUses(t *testing.T, imp types.Importer, pkg string, files []string) map[string][]string {
	t.Helper()
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, file := range files {
		f := kit.Must(parser.ParseFile(fset, file, nil, parser.SkipObjectResolution))(t)
		parsed = append(parsed, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: imp}
	if imp == (nowhere{}) {
		config.Error = func(error) {}
	}
	checked, err := config.Check(pkg, fset, parsed, info)
	if config.Error == nil {
		require.NoError(t, err)
	}
	uses := map[string][]string{}
	for _, file := range files {
		uses[path.Base(file)] = nil
	}
	for ident, object := range info.Uses {
		f, method := object.(*types.Func)
		method = method && f.Signature().Recv() != nil
		if object.Pkg() != checked || object.Parent() != checked.Scope() && !method {
			continue
		}
		from, to := path.Base(fset.Position(ident.Pos()).Filename), path.Base(fset.Position(object.Pos()).Filename)
		if from != to && !slices.Contains(uses[from], to) {
			uses[from] = append(uses[from], to)
		}
	}
	return uses
}

// cycles returns the sets of nodes that reach each other.
func cycles(uses map[string][]string) (sets [][]string) {
	reaches := map[string]map[string]bool{}
	for from := range uses {
		seen := map[string]bool{}
		var visit func(string)
		visit = func(at string) {
			for _, to := range uses[at] {
				if !seen[to] {
					seen[to] = true
					visit(to)
				}
			}
		}
		visit(from)
		reaches[from] = seen
	}
	for from := range uses {
		var set []string
		for to := range uses {
			if reaches[from][to] && reaches[to][from] {
				set = append(set, to)
			}
		}
		slices.Sort(set)
		if len(set) > 0 && set[0] == from {
			sets = append(sets, set)
		}
	}
	return sets
}

// nowhere imports nothing, so that nothing need be built. What a package says of itself is seen then too, but for the
// methods of what an imported function returned: 2 of 1,188 uses.
type nowhere struct{}

func (nowhere) Import(string) (*types.Package, error) { return nil, os.ErrNotExist }

// exportData imports what the module here depends on, as the compiler has built it.
func exportData(t *testing.T) types.Importer {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "./...")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out := kit.Must(cmd.Output())(t)
	built := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		built[name] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) {
		return os.Open(built[name])
	})
}
