// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/policyfile"
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
)

func passwordOf(string) (password string) { return }

func lookUp(string) (customer struct{ ID, Plan string }, ok bool) { return }

func contracted(ctx context.Context, customer string) (quota int64, err error) { return }
`

// imported are the packages that fragments may name.
var imported = map[string]string{
	"context": "context", "fmt": "fmt", "slices": "slices", "slog": "log/slog", "strconv": "strconv", "strings": "strings", "json": "encoding/json", "log": "log", "http": "net/http", "netip": "net/netip", "url": "net/url", "time": "time",
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
	root := kit.Must(filepath.Abs("."))(t)
	mod := kit.Must(os.ReadFile("demo/go.mod"))(t)
	text := regexp.MustCompile(`(?m)^(module|replace) .*\n`).ReplaceAllString(string(mod), "")
	text = "module example.com/printed\n" + text
	for _, nested := range []string{"", "/middleware/exact/file", "/middleware/exact/redis", "/middleware/otel"} {
		text += fmt.Sprintf("\nreplace %s%s => %s%s\n", module, nested, root, nested)
	}
	sum := kit.Must(os.ReadFile("demo/go.sum"))(t)
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
	source := kit.Must(os.ReadFile("demo/quickstart/main.go"))(t)
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
	root := kit.Must(filepath.Abs("."))(t)
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

// What Install replaces is where it says, and each module of its own has its place in the clone: its path is
// its folder's, as the example has it.
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
	readme := kit.Must(os.ReadFile("README.md"))(t)
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
		mod := kit.Must(os.ReadFile(filepath.Join(folder, "go.mod")))(t)
		require.Contains(t, string(mod), "module "+module+"/"+folder+"\n")
	}
}

// blocksOf returns the blocks of a language on all pages.
func blocksOf(t *testing.T, language string) (found []pages.Block) {
	t.Helper()
	for _, page := range everyPage(t) {
		blocks, _ := read(t, page)
		for _, b := range blocks {
			if b.Language == language {
				found = append(found, b)
			}
		}
	}
	require.NotEmpty(t, found)
	return found
}

// signup is the limiter that sells tallies on the pages.
func signup(t *testing.T) *middleware.Middleware {
	t.Helper()
	limit := kit.Must(middleware.New(middleware.Config{
		Policy:    "signup",
		Limits:    []middleware.Limit{{Quota: 3, Window: 10 * time.Minute}},
		Secrets:   [][]byte{[]byte(strings.Repeat("s", 32))},
		Challenge: &middleware.Challenge{Mode: middleware.Newcomers, Path: "/tally/signup/"},
		Logger:    slog.New(slog.DiscardHandler), // no program has mounted the endpoints
	}))(t)
	return limit
}

// What a page of HTML names below /tally/signup/ is served by the policy of the Go block
// before it, and the element knows the attributes.
func TestHTMLBlocks(t *testing.T) {
	limit := signup(t)
	status := func(url string) int {
		w := httptest.NewRecorder()
		limit.Endpoints().ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
		return w.Code
	}
	for _, b := range blocksOf(t, "html") {
		files := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(b.Text, -1)
		require.NotEmpty(t, files, b.Text)
		for _, file := range files {
			require.Equal(t, http.StatusOK, status(file[1]), file[1])
		}
		element := regexp.MustCompile(`<tally-check endpoint="([^"]+)"></tally-check>`).FindStringSubmatch(b.Text)
		require.NotNil(t, element, b.Text)
		require.Equal(t, http.StatusOK, status(element[1]+"challenge"))
		require.Contains(t, b.Text, `<form method="post" action="/signup">`)
	}
}

// A file of tiers, or of policies, is one that policyfile takes; a problem has the members of a problem
// that is sent.
func TestJSONBlocks(t *testing.T) {
	limit := signup(t)
	w := httptest.NewRecorder()
	limit.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/signup", nil))
	var sent map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &sent))
	sent["challenge"] = "Aa8BCGsA8F8A…"
	for _, b := range blocksOf(t, "json") {
		var printed map[string]any
		require.NoError(t, json.Unmarshal([]byte(b.Text), &printed), "%s:%d", b.Page, b.Line)
		if _, file := printed["policies"]; file {
			require.NoError(t, policyfile.Check("policies.json", []byte(b.Text)))
			continue
		}
		if _, tiers := printed["tiers"]; tiers {
			kit.Must(policyfile.Tiers("tiers.json", []byte(b.Text)))(t)
			continue
		}
		require.Equal(t, sent, printed, "%s:%d", b.Page, b.Line)
	}
}

// A block that says from which file it comes stands in that file, line for line, at any
// depth of tabs. The file is compiled and tested by its own module. "// ..." stands for what is left out.
func TestBlocksStandInTheirFiles(t *testing.T) {
	found := 0
	for _, page := range everyPage(t) {
		blocks, _ := read(t, page)
		for _, b := range blocks {
			if b.From == "" {
				continue
			}
			found++
			source, err := os.ReadFile(b.From)
			require.NoError(t, err, "%s:%d", b.Page, b.Line)
			require.True(t, standsIn(string(source), b), "%s:%d: %s has no such lines", b.Page, b.Line, b.From)
		}
	}
	require.NotZero(t, found)
}

// standsIn reports whether the parts of a block follow each other in a file.
func standsIn(source string, b pages.Block) bool {
	for part := range strings.SplitSeq(b.Text, "// ...\n") {
		rest, ok := after(source, strings.Trim(part, "\n")+"\n")
		if !ok {
			return false
		}
		source = rest
	}
	return true
}

// after returns what of a file follows some lines, which may stand deeper there.
func after(source, lines string) (rest string, ok bool) {
	for depth := range 4 {
		tabs := strings.Repeat("\t", depth)
		var deeper strings.Builder
		for line := range strings.Lines(lines) {
			if strings.TrimSpace(line) != "" {
				deeper.WriteString(tabs)
			}
			deeper.WriteString(line)
		}
		if i := strings.Index("\n"+source, "\n"+deeper.String()); i >= 0 {
			return source[i+deeper.Len():], true
		}
	}
	return "", false
}

// Each directory of the module of recipes is in the table of docs/recipes.md, and nothing else. What is
// imported has a file to copy; what is a program has its main.
func TestRecipesAreNamed(t *testing.T) {
	directories := kit.Must(filepath.Glob("middleware/recipes/*/*.go"))(t)
	var there []string
	for _, file := range directories {
		there = append(there, path.Base(path.Dir(filepath.ToSlash(file))))
	}
	slices.Sort(there)
	there = slices.Compact(there)
	var named []string
	for _, row := range tableOf(t, "docs/recipes.md", "| for |") {
		for _, l := range link.FindAllStringSubmatch(row[2], -1) {
			named = append(named, path.Base(l[1]))
		}
	}
	require.ElementsMatch(t, there, named)
}
