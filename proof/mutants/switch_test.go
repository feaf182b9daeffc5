// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// switched returns files whose functions have the bodies of their mutants too, each behind its number, and the numbers by
// the names of the mutants: so one build serves most mutants. What changes a signature, a declaration of another
// kind or a file of no Go, and what has a label, has no number.
func switched(pkg string, specs []Mutant) (files map[string][]byte, number map[string]int) {
	files, number = map[string][]byte{}, map[string]int{}
	type change struct {
		at   int // behind the brace that begins the body
		body string
	}
	changes := map[string][]change{}
	for i, m := range specs {
		file, text, err := m.Broken(pkg)
		if err != nil || !strings.HasSuffix(file, ".go") {
			continue
		}
		for _, p := range places(pkg, m.In) {
			was, at, _ := functionAt(p.text, p.from)
			is, _, results := functionAt(text, p.from)
			if p.file != file || at == 0 || is == was || !strings.HasPrefix(is, was[:at-p.from]) {
				continue
			}
			body := strings.TrimSuffix(is[at-p.from:], "}")
			if !results {
				body += "\nreturn"
			}
			changes[file] = append(changes[file], change{at, fmt.Sprintf("\nif mutantTried == %d {\n%s\n}\n", i+1, body)})
			files[file], number[m.Name] = p.text, i+1
		}
	}
	for file, all := range changes {
		slices.SortFunc(all, func(a, b change) int { return cmp.Compare(b.at, a.at) })
		text := files[file]
		for _, c := range all {
			text = slices.Concat(text[:c.at], []byte(c.body), text[c.at:])
		}
		files[file] = text
		name := bytes.Fields(text[bytes.Index(text, []byte("\npackage "))+1:])[1]
		files[path.Join(path.Dir(file), "mutanttried.go")] = fmt.Appendf(nil,
			"package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar mutantTried, _ = strconv.Atoi(os.Getenv(%q))\n", name, running)
	}
	return files, number
}

// functionAt returns the function that begins at a place, without a label in it, where its body begins, and whether it has results.
func functionAt(text []byte, from int) (function string, body int, results bool) {
	f, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		return "", 0, false
	}
	for _, d := range f.Decls {
		d, ok := d.(*ast.FuncDecl)
		if !ok || int(d.Pos())-1 != from || d.Body == nil {
			continue
		}
		labels := false
		ast.Inspect(d, func(n ast.Node) bool {
			_, is := n.(*ast.LabeledStmt)
			labels = labels || is
			return true
		})
		if !labels {
			return string(text[from : d.End()-1]), int(d.Body.Lbrace), d.Type.Results != nil
		}
	}
	return "", 0, false
}
