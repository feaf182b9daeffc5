// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// Each field of a Config does something: code that neither checks it nor fills in its default reads it.
func TestEveryFieldIsRead(t *testing.T) {
	checks := regexp.MustCompile(`^(validate$|check|withDefaults)`)
	read := map[string]bool{}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || checks.MatchString(f.Name.Name) {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					read[s.Sel.Name] = true
				}
				return true
			})
		}
	}
	var within func(of reflect.Type)
	within = func(of reflect.Type) {
		for f := range of.Fields() {
			if f.IsExported() {
				require.True(t, read[f.Name] || f.Anonymous, "nothing reads %s.%s", of, f.Name)
			}
			if typ := f.Type; typ.Kind() == reflect.Pointer && typ.Elem().PkgPath() == of.PkgPath() {
				within(typ.Elem())
			} else if f.Anonymous {
				within(typ)
			}
		}
	}
	within(reflect.TypeFor[middleware.Config]())
}
