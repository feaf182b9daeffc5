// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// A Constant is one of a package, as its source has it.
type Constant struct {
	Name  string
	Type  string    // "" for none
	Value string    // of a string that is written out
	Group token.Pos // the same for all of one declaration
}

// Constants returns the constants of the package in a directory, for tables that must name them, in order.
func Constants(dir string) (all []Constant, err error) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.go")) // without any there are no constants
	set := token.NewFileSet()
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range parsed.Decls {
			constants, ok := decl.(*ast.GenDecl)
			if !ok || constants.Tok != token.CONST {
				continue
			}
			c := Constant{Group: decl.Pos()}
			for _, spec := range constants.Specs {
				spec := spec.(*ast.ValueSpec)
				if len(spec.Values) > 0 { // else it has the type of the one before
					c.Type = ""
				}
				if named, ok := spec.Type.(*ast.Ident); ok {
					c.Type = named.Name
				}
				for i, name := range spec.Names {
					c.Name, c.Value = name.Name, ""
					if i < len(spec.Values) {
						if literal, ok := spec.Values[i].(*ast.BasicLit); ok && literal.Kind == token.STRING {
							c.Value = strings.Trim(literal.Value, `"`)
						}
					}
					all = append(all, c)
				}
			}
		}
	}
	return all, nil
}
