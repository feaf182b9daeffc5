// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"

	"github.com/tallystick/tallystick/proof/pages"
)

const module = "github.com/tallystick/tallystick"

// granted is what the fragments of the pages take for granted; a new one needs no more
// than a line here, and the page must say where it comes from.
const granted = `package fragment

import (
	"context"
	"expvar"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

var (
	secret, old, fresh []byte
	contact, signup, quote, wiki http.HandlerFunc
	customer           middleware.IdentityFunc
	tiers              map[string][]middleware.Limit
	cfg                middleware.Config
	limit              *middleware.Middleware
	decisions          expvar.Map
	ctx                context.Context
	requests           *exact.Policy
	counter            exact.Counter
	forgiven           map[string]string
	newApp             func(func() time.Time) http.Handler
)

func passwordOf(string) (password string) { return }

func lookUp(string) (customer struct{ ID, Plan string }, ok bool) { return }

func contracted(ctx context.Context, customer string) (quota int64, err error) { return }
`

// imported are the packages that fragments may name.
var imported = map[string]string{
	"context": "context", "fmt": "fmt", "slices": "slices", "slog": "log/slog", "strconv": "strconv", "strings": "strings", "json": "encoding/json", "log": "log", "http": "net/http", "netip": "net/netip", "url": "net/url", "time": "time",
	"testing": "testing", "httptest": "net/http/httptest", "middlewaretest": module + "/middleware/middlewaretest",
	"middleware": module + "/middleware", "client": module + "/middleware/client", "keptform": module + "/middleware/keptform",
	"storeless": module + "/storeless", "exact": module + "/middleware/exact", "engine": module + "/middleware/exact/engine", "memory": module + "/middleware/exact/memory", "lease": module + "/middleware/exact/lease", "pace": module + "/middleware/exact/pace",
	"otel": module + "/middleware/otel", "refusallog": module + "/middleware/refusallog",
	"file": module + "/middleware/exact/file", "redis": module + "/middleware/exact/redis",
	"peers": module + "/middleware/peers", "remote": module + "/middleware/exact/remote", "net": "net", "policyfile": module + "/middleware/policyfile",
	"os": "os", "signal": "os/signal", "syscall": "syscall",
}

// wholeFile makes a file of a fragment: declarations stand as they are, statements go into
// a function, which uses what they define.
func wholeFile(t *testing.T, b pages.Block) string {
	t.Helper()
	body := b.Text
	if !strings.HasPrefix(body, "func ") {
		body = "func _() {\n" + body + "}\n"
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), "", "package fragment\n"+body, 0)
	require.NoError(t, err, "%s:%d", b.Page, b.Line)
	var used []string
	for _, statement := range parsed.Decls[0].(*ast.FuncDecl).Body.List {
		if assign, ok := statement.(*ast.AssignStmt); ok && assign.Tok == token.DEFINE {
			for _, name := range assign.Lhs {
				used = append(used, "_ = "+name.(*ast.Ident).Name+"\n")
			}
		}
	}
	if !strings.HasPrefix(b.Text, "func ") {
		body = strings.TrimSuffix(body, "}\n") + strings.Join(used, "") + "}\n"
	}
	var imports []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if name, ok := s.X.(*ast.Ident); ok && imported[name.Name] != "" {
				imports = append(imports, fmt.Sprintf("import %q\n", imported[name.Name]))
			}
		}
		return true
	})
	slices.Sort(imports)
	return "package fragment\n" + strings.Join(slices.Compact(imports), "") + body
}

// moduleHere makes a module in an empty directory that has this repository, and what its
// demo requires, by replace.
func moduleHere(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(".")
	require.NoError(t, err)
	mod, err := os.ReadFile("demo/go.mod")
	require.NoError(t, err)
	text := regexp.MustCompile(`(?m)^(module|replace) .*\n`).ReplaceAllString(string(mod), "")
	text = "module example.com/printed\n" + text
	for _, nested := range []string{"", "/middleware/exact/file", "/middleware/exact/redis", "/middleware/otel"} {
		text += fmt.Sprintf("\nreplace %s%s => %s%s\n", module, nested, root, nested)
	}
	sum, err := os.ReadFile("demo/go.sum")
	require.NoError(t, err)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), text)
	write(t, filepath.Join(dir, "go.sum"), string(sum))
	return dir
}

func write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

// goHere runs the go command in a directory, whatever this machine sets elsewhere.
func goHere(t *testing.T, dir string, args ...string) {
	t.Helper()
	run := exec.Command("go", args...)
	run.Dir, run.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestGoBlocks compiles every block of Go: a program as it is printed, a fragment within a
// file that declares what it takes for granted.
func TestGoBlocks(t *testing.T) {
	kit.Outside(t)
	kit.OnlyWhole(t, "builds every program and fragment of the pages, with all their modules")
	dir := moduleHere(t)
	for i, b := range blocksOf(t, "go") {
		if b.From != "" { // compiled where it comes from, by a module that has what it imports
			continue
		}
		name := fmt.Sprintf("%s%d", strings.TrimSuffix(filepath.Base(b.Page), ".md"), i)
		if strings.HasPrefix(b.Text, "package ") {
			write(t, filepath.Join(dir, name, "main.go"), b.Text)
			continue
		}
		write(t, filepath.Join(dir, name, "granted.go"), granted)
		write(t, filepath.Join(dir, name, "fragment.go"), wholeFile(t, b))
	}
	goHere(t, dir, "build", "-o", os.DevNull, "./...")
}

// The first program of the README is demo/quickstart.
func TestFirstProgram(t *testing.T) {
	source, err := os.ReadFile("demo/quickstart/main.go")
	require.NoError(t, err)
	comment, program, found := strings.Cut(string(source), "package main\n")
	require.True(t, found)
	require.NotContains(t, strings.TrimPrefix(comment, "// SPDX-License-Identifier: Apache-2.0\n\n"), "\n\n")
	require.Equal(t, "package main\n"+program, blocksOf(t, "go")[0].Text)
}

// TestInstall does what the README says before there is a release: in an empty directory
// beside a clone, with the first program.
func TestInstall(t *testing.T) {
	kit.Outside(t)
	kit.OnlyWhole(t, "builds the first program, with all its modules")
	dir := t.TempDir()
	root, err := filepath.Abs(".")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(root, filepath.Join(dir, "tallystick")))
	program := filepath.Join(dir, "form", "main.go")
	write(t, program, blocksOf(t, "go")[0].Text)
	commands := 0
	for _, b := range blocksOf(t, "sh") {
		if b.RunBy != t.Name() {
			continue
		}
		for line := range strings.Lines(b.Text) { // of plain words: no shell, which a machine may not have
			words := strings.Fields(line)
			require.Regexp(t, `^[\w ./=-]+$`, strings.Join(words, " "))
			run := exec.Command(words[0], words[1:]...)
			run.Dir, run.Env = filepath.Dir(program), append(os.Environ(), "GOWORK=off", "GOFLAGS=")
			out, err := run.CombinedOutput()
			require.NoError(t, err, "%s: %s", line, out)
			commands++
		}
	}
	require.NotZero(t, commands)
	goHere(t, filepath.Dir(program), "build", "-o", os.DevNull, ".")
}

// What Install replaces is where it says, and each module of its own has its place in the clone: its path is that of
// its folder, as the example has it.
func TestReplaceLines(t *testing.T) {
	replace := regexp.MustCompile(`(?m)^go mod edit -replace (\S+)=\.\./tallystick(\S*)$`)
	var replaced []string
	for _, b := range blocksOf(t, "sh") {
		if b.RunBy != "TestInstall" {
			continue
		}
		for _, line := range replace.FindAllStringSubmatch(b.Text, -1) {
			replaced = append(replaced, line[1])
			require.Equal(t, line[1], module+line[2])
		}
	}
	require.Equal(t, []string{module}, replaced, "the first program needs no other")
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "`"+module+"/middleware/recipes=../tallystick/middleware/recipes`")
	own := []string{"middleware/recipes"}
	for _, row := range tableOf(t, "README.md", "| package | what it is |") {
		if strings.Contains(row[1], "a module of its own") {
			for _, named := range link.FindAllStringSubmatch(row[0], -1) {
				own = append(own, named[1])
			}
		}
	}
	require.Greater(t, len(own), 2)
	for _, folder := range own {
		mod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		require.NoError(t, err)
		require.Contains(t, string(mod), "module "+module+"/"+folder+"\n")
	}
}
