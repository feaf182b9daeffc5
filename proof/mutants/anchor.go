// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
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

// directories are the declarations of each directory: a list of mutants asks for one again and again.
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

// Broken returns the file that a mutant changes, relative to the package, and its text with the change in it.
// The old text must have one place. How it is indented, and where its lines end, does not matter.
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
