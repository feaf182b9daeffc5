// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// Command names prints how many names and methods each package of a directory exports that others
// can import: "package names methods", a line each, and a line for all. A method of an
// interface is one, a field of a struct is none.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

type count struct{ names, methods int }

func main() {
	packages, all := map[string]*count{}, count{}
	root := os.DirFS(os.Args[1])
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{"internal", "proof", "testdata", "node_modules", "demo"}, name) || name != "." && name[0] == '.'):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil || file.Name.Name == "main" {
			return err
		}
		of := filepath.Dir(path)
		if packages[of] == nil {
			packages[of] = new(count)
		}
		packages[of].add(file)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		c := packages[name]
		fmt.Println(name, c.names, c.methods)
		all.names += c.names
		all.methods += c.methods
	}
	fmt.Println("all", all.names, all.methods)
}

// add counts what a file exports.
func (c *count) add(file *ast.File) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			switch {
			case !d.Name.IsExported():
			case d.Recv == nil:
				c.names++
			case receiver(d.Recv.List[0].Type).IsExported():
				c.methods++
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					c.names += len(slices.DeleteFunc(slices.Clone(s.Names), func(n *ast.Ident) bool { return !n.IsExported() }))
				case *ast.TypeSpec:
					if !s.Name.IsExported() {
						continue
					}
					c.names++
					if i, ok := s.Type.(*ast.InterfaceType); ok {
						for _, f := range i.Methods.List { // what is embedded has no name
							c.methods += len(f.Names)
						}
					}
				}
			}
		}
	}
}

// receiver returns the name of the type that a method is of.
func receiver(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	}
	return e.(*ast.Ident)
}
