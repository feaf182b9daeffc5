// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A place is where a declaration stands, or all of a file.
type place struct {
	file     string // relative to the package
	text     []byte // of the file
	from, to int
}

// directories are the declarations of each directory: a list of mutants asks for one again
// and again.
var directories sync.Map

// places returns where something is declared, wherever in its package that is. It may be
// more than one place: a file for each system may declare it.
func places(pkg, in string) []place {
	if text, err := os.ReadFile(filepath.Join(pkg, in)); err == nil {
		return []place{{in, text, 0, len(text)}}
	}
	dir, name := path.Split(in)
	known, _ := directories.LoadOrStore([2]string{pkg, dir}, sync.OnceValue(func() map[string][]place {
		all := map[string][]place{}
		files, _ := filepath.Glob(filepath.Join(pkg, dir, "*.go"))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil || strings.HasSuffix(file, "_test.go") {
				continue
			}
			for name, p := range declared(dir+filepath.Base(file), text) {
				all[name] = append(all[name], p...)
			}
		}
		return all
	}))
	return known.(func() map[string][]place)()[name]
}

// declared returns what a file declares, as "name" or "type.method".
func declared(file string, text []byte) map[string][]place {
	all := map[string][]place{}
	f, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		return all
	}
	note := func(name string, n ast.Node) { // the first byte has the position 1
		all[name] = append(all[name], place{file, text, int(n.Pos()) - 1, int(n.End()) - 1})
	}
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok {
			of := ""
			if d.Recv != nil {
				of = receiver.FindString(string(text[d.Recv.List[0].Type.Pos()-1:])) + "."
			}
			note(strings.TrimPrefix(of, "*")+d.Name.Name, d)
			continue
		}
		for _, s := range d.(*ast.GenDecl).Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				note(s.Name.Name, s)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					note(name.Name, s)
				}
			}
		}
	}
	return all
}

var receiver = regexp.MustCompile(`^\*?\w+`)

// Broken returns the file that a mutant changes, relative to the package, and its text
// with the change in it. The old text must have one place. How it is indented, and where
// its lines end, does not matter.
func (m *Mutant) Broken(pkg string) (file string, text []byte, err error) {
	words := strings.Fields(m.Old)
	for i, word := range words {
		words[i] = regexp.QuoteMeta(word)
	}
	old, n := regexp.MustCompile(strings.Join(words, `\s+`)), 0
	for _, p := range places(pkg, m.In) {
		for _, at := range old.FindAllIndex(p.text[p.from:p.to], -1) {
			n++
			file, text = p.file, slices.Concat(p.text[:p.from+at[0]], []byte(m.New), p.text[p.from+at[1]:])
		}
	}
	if n != 1 {
		return "", nil, fmt.Errorf("%d times in %s: %s", n, m.In, m.Old)
	}
	return file, text, nil
}

// since returns the mutants that a commit does not know as they are now: the declaration
// that they break has changed, or the file of the test that kills them, or they have.
func since(commit, pkg string, specs []Mutant, killer func(string) test) ([]Mutant, error) {
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir = pkg
		out, err := cmd.Output()
		return string(out), err
	}
	within, err := git("rev-parse", "--show-prefix") // of the repository
	changed, err2 := git("diff", "--name-only", "--no-renames", commit)
	added, err3 := git("ls-files", "--others", "--exclude-standard", "--full-name", ":/")
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, fmt.Errorf("what has changed since %s: git says: %w", commit, err)
	}
	files := strings.Fields(changed + added)
	for i, file := range files {
		files[i], _ = filepath.Rel(filepath.Clean(strings.TrimSpace(within)), file)
	}
	known, tests := map[string]bool{}, map[test]bool{} // declarations, and tests
	var listed []Mutant
	for _, file := range files {
		was, _ := git("show", commit+":./"+file) // or nothing: the file is new
		now, _ := os.ReadFile(filepath.Join(pkg, file))
		switch {
		case strings.HasSuffix(file, "_test.go"):
			for name := range declared(file, now) {
				tests[test{path.Dir(file), name}] = true
			}
		case strings.HasSuffix(file, ".go"):
			dir, _ := path.Split(file)
			for name, all := range declared(file, []byte(was)) {
				for _, p := range all {
					known[p.means(dir+name)] = true
				}
			}
		case path.Base(path.Dir(file)) == "mutants":
			var then, here []Mutant
			_, _ = json.Unmarshal([]byte(was), &then), json.Unmarshal(now, &here)
			listed = append(listed, slices.DeleteFunc(here, func(m Mutant) bool { return slices.Contains(then, m) })...)
		}
	}
	return slices.DeleteFunc(slices.Clone(specs), func(m Mutant) bool {
		changed := func(p place) bool { return slices.Contains(files, p.file) && !known[p.means(m.In)] }
		return !slices.Contains(listed, m) && !tests[killer(m.Name)] && !slices.ContainsFunc(places(pkg, m.In), changed)
	}), nil
}

// means returns what is declared at a place, however it is indented.
func (p place) means(name string) string {
	return name + ": " + strings.Join(strings.Fields(string(p.text[p.from:p.to])), " ")
}
