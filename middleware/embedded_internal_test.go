// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The engine is embedded in a question, and so are others elsewhere: a name of both would mean one thing in a step, and
// another where somebody reads the engine. The compiler does not tell.
func TestNothingHidesANameOfWhatItEmbeds(t *testing.T) {
	parse := func(name string, text any) *ast.File {
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		return file
	}
	require.ElementsMatch(t, []string{"question.price", "question.note", "question.name"}, hiddenNames(parse("", `package p
		type engine struct { name string; *deep }
		type deep struct { price int }
		func (e *engine) note() {}
		type question struct { *engine; price int; other }
		type other struct { name string }
		func (q question) note() {}`)))

	names, err := filepath.Glob("[a-z]*.go")
	require.NoError(t, err)
	var files []*ast.File
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			files = append(files, parse(name, nil))
		}
	}
	require.Greater(t, len(files), 40)
	require.Empty(t, hiddenNames(files...))
}

// hiddenNames returns the names of fields and methods that a struct has twice: itself, and in a struct of the same package
// that it embeds, or in two of those.
func hiddenNames(files ...*ast.File) (hidden []string) {
	own, embeds := map[string][]string{}, map[string][]string{} // by type
	nameOf := func(e ast.Expr) string {
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		if name, ok := e.(*ast.Ident); ok {
			return name.Name
		}
		return "" // of another package
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					of := nameOf(n.Recv.List[0].Type)
					own[of] = append(own[of], n.Name.Name)
				}
				return false
			case *ast.TypeSpec:
				s, ok := n.Type.(*ast.StructType)
				if !ok {
					return false
				}
				for _, field := range s.Fields.List {
					for _, name := range field.Names {
						if name.Name != "_" {
							own[n.Name.Name] = append(own[n.Name.Name], name.Name)
						}
					}
					if len(field.Names) == 0 {
						embeds[n.Name.Name] = append(embeds[n.Name.Name], nameOf(field.Type))
					}
				}
			}
			return true
		})
	}
	var namesIn func(string) []string
	namesIn = func(of string) []string {
		names := own[of]
		for _, inner := range embeds[of] {
			names = append(names[:len(names):len(names)], namesIn(inner)...)
		}
		return names
	}
	for of := range embeds {
		seen := map[string]bool{}
		for _, name := range namesIn(of) {
			if seen[name] {
				hidden = append(hidden, of+"."+name)
			}
			seen[name] = true
		}
	}
	return hidden
}
