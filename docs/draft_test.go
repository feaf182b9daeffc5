// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The draft of the RateLimit fields is named once, in the documentation of package middleware, so that
// the next one is one line. The choice of fields names the older ones that it spells.
func TestDraftIsNamedOnce(t *testing.T) {
	numbered := regexp.MustCompile(`(?i)(?:draft-ietf-httpapi-)?ratelimit-headers-[0-9]+|\bdraft[- ][0-9]+`)
	var named []string
	for _, page := range everyPage(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		named = append(named, numbered.FindAllString(string(text), -1)...)
	}
	files, err := filepath.Glob("middleware/*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		choices := slices.DeleteFunc(file.Decls, func(decl ast.Decl) bool {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				return true
			}
			typ, ok := group.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident)
			return !ok || typ.Name != "Fields"
		})
		for _, comment := range file.Comments {
			if !slices.ContainsFunc(choices, func(d ast.Decl) bool { return d.Pos() < comment.Pos() && comment.End() < d.End() }) {
				named = append(named, numbered.FindAllString(comment.Text(), -1)...)
			}
		}
	}
	require.Equal(t, []string{"draft-ietf-httpapi-ratelimit-headers-11"}, named)
}
