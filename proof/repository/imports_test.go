// SPDX-License-Identifier: Apache-2.0

package repository_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/pages"
)

const (
	module = "github.com/tallystick/tallystick"
	inner  = module + "/middleware/internal/" // the leaves: plain values in and out

	counters = module + "/middleware/exact/"
)

// arrows are the imports that a package may have beside the standard library:
// the table of the design. A new package adds its row.
var arrows = map[string][]string{
	"storeless": {module + "/internal/limiter"},
	"token":     {module + "/storeless", module + "/internal/limiter", module + "/internal/token", jwt},
	"pow":       {module + "/internal/span"},
	"middleware": {
		module + "/storeless", module + "/internal/calendar", module + "/internal/gossip", module + "/internal/limiter", module + "/internal/sale", module + "/internal/span", module + "/internal/token", module + "/pow", module + "/middleware/exact", module + "/middleware/peers",
		inner + "assets", inner + "guardedcall", inner + "httpfield", inner + "load", inner + "lookup", inner + "page", inner + "reply", inner + "seen", inner + "slots", inner + "ticket",
	},
	"middleware/keptform":              {inner + "page", inner + "words"},
	"middleware/internal/assets":       {inner + "httpfield"},
	"middleware/internal/guardedcall":  {module + "/middleware/exact"},
	"middleware/internal/httpfield":    {},
	"middleware/internal/load":         {},
	"middleware/internal/lookup":       {},
	"middleware/internal/page":         {inner + "words"},
	"middleware/internal/reply":        {module + "/internal/token"},
	"middleware/internal/seen":         {},
	"middleware/internal/slots":        {},
	"middleware/internal/ticket":       {},
	"middleware/internal/words":        {inner + "httpfield"},
	"middleware/exact":                 {module + "/storeless", module + "/internal/calendar", module + "/internal/limiter", module + "/internal/span", counters + "internal/plan"},
	"middleware/exact/engine":          {module + "/storeless", module + "/internal/limiter", module + "/middleware/exact", counters + "internal/plan", counters + "internal/patience", counters + "internal/receipt"},
	"middleware/exact/memory":          {module + "/middleware/exact", counters + "engine"},
	"middleware/exact/lease":           {module + "/storeless", module + "/internal/span", module + "/middleware/exact", counters + "engine"},
	"middleware/exact/exacttest":       {module + "/storeless", module + "/middleware/exact", counters + "engine", counters + "memory"},
	"middleware/exact/remote":          {module + "/storeless", module + "/internal/calendar", module + "/middleware/exact", counters + "engine", counters + "internal/patience"},
	"middleware/exact/pace":            {module + "/storeless", module + "/internal/span", module + "/middleware/exact", inner + "httpfield"},
	"middleware/exact/cas":             {module + "/storeless", module + "/middleware/exact", counters + "engine"},
	"middleware/exact/cas/castest":     {module + "/middleware/exact/cas"},
	"middleware/peers":                 {module + "/storeless", module + "/internal/gossip", module + "/internal/span"},
	"middleware/client":                {module + "/pow", inner + "httpfield"},
	"middleware/policyfile":            {module + "/middleware", module + "/middleware/exact", module + "/storeless", validator},
	"middleware/policyfile/cmd/bounds": {module + "/middleware/policyfile"},
	"middleware/refusallog":            {module + "/middleware"},
	"proof/fleet":                      {module + "/middleware", module + "/middleware/exact", counters + "memory", module + "/pow"},
	"proof/players":                    {module + "/proof/fleet", module + "/pow"},
	"proof/rows": {
		module + "/proof/fleet", module + "/proof/pages", module + "/proof/players", module + "/proof/truth", // who plays, before what, and what is true
		module + "/middleware", module + "/internal/sale", module + "/pow",
	},
	"internal/cells":   {},
	"proof/model":      {module + "/storeless", module + "/internal/limiter", module + "/internal/token", module + "/pow", module + "/middleware", module + "/proof/truth"},
	"internal/limiter": {module + "/internal/calendar", module + "/internal/cells", module + "/internal/gossip", module + "/internal/span"}, // the engine knows none of its doors
	"proof/mutants":    {},
	"proof/exactkit":   {module + "/storeless", module + "/middleware/exact", module + "/middleware/exact/cas", module + "/middleware/exact/exacttest", kitPackage, module + "/proof/program", testify, counters + "engine"},
	"proof/program":    {},
	"proof/handlers": { // what tests send requests to
		module + "/pow", module + "/token", module + "/middleware", module + "/middleware/client", module + "/middleware/exact",
		kitPackage, module + "/proof/fleet", jwt, testify,
	},
	"proof/bounds":      {}, // tests alone
	"proof/threats":     {},
	"proof/truth":       {}, // what it judges, it does not import
	"internal/calendar": {},
	"internal/span":     {},
	"internal/sale":     {module + "/internal/limiter", module + "/internal/cells", module + "/internal/gossip"},
	"internal/token":    {module + "/internal/limiter", module + "/internal/siphash"},
	"internal/siphash":  {},
	"internal/gossip":   {module + "/internal/siphash"},
	"proof/pages":       {},
	"proof/kit":         {module + "/proof/program"},

	"middleware/middlewaretest":                {module + "/middleware", module + "/middleware/client", module + "/pow"},
	"internal/clienttest":                      {module + "/middleware", module + "/middleware/exact", module + "/pow", counters + "memory"},
	"middleware/middlewaretest/cmd/clienttest": {module + "/internal/clienttest"},
	"internal/npm":                             {},
	"middleware/exact/internal/plan":           {module + "/storeless", module + "/internal/calendar", module + "/internal/limiter"},
	"middleware/exact/internal/patience":       {},
	"middleware/exact/internal/receipt":        {module + "/storeless", module + "/middleware/exact"},
	"internal/npm/write":                       {module + "/internal/npm"},
}

const (
	jwt        = "github.com/golang-jwt/jwt/v5"
	validator  = "github.com/go-playground/validator/v10"
	testify    = "github.com/stretchr/testify/require"
	httpsfv    = "github.com/dunglas/httpsfv"
	mutants    = module + "/proof/mutants"  // breaks packages, to test their tests
	kitPackage = module + "/proof/kit"      // where a test runs
	exactkit   = module + "/proof/exactkit" // what tests ask of an exact counter
)

// inTests are the imports that a package's tests may have beside its own arrows,
// testify, mutants, kit and the package itself.
var inTests = map[string][]string{
	"storeless": {module + "/token"},      // workers that share a secret
	"token":     {module + "/middleware"}, // the other door
	"middleware": {
		module + "/token",                                            // what Decision.TokenErr is
		httpsfv,                                                      // an independent parser for the RateLimit fields
		module + "/middleware/client",                                // the other end
		module + "/middleware/keptform",                              // one more page, which says what needs a script
		counters + "engine", counters + "memory", counters + "lease", // counters to ask, of every kind
		module + "/proof/pages",    // the page with its table
		module + "/proof/handlers", // what they send requests to
		module + "/proof/truth",    // what each limit of several units admits
	},
	"proof/model": {module + "/internal/gossip", module + "/middleware/exact"}, // what peers hear, and a counter
	"proof/bounds": {
		module + "/middleware", module + "/middleware/exact", counters + "memory", counters + "remote", module + "/middleware/client", module + "/pow", module + "/storeless",
		module + "/internal/limiter", module + "/internal/sale", // what the oracles of the traces are held to
		module + "/proof/handlers", module + "/proof/fleet", module + "/proof/players", module + "/proof/truth",
	},
	"proof/threats": {
		module + "/middleware", module + "/middleware/exact", counters + "memory", module + "/storeless", module + "/proof/handlers", module + "/proof/fleet", module + "/proof/players", module + "/proof/truth",
		jwt, // T12 and T13: what another package, or a thief, does with it
	},
	"middleware/peers":    {module + "/proof/pages"},                               // the wire
	"middleware/keptform": {module + "/middleware"},                                // whose refusals it answers
	"internal/gossip":     {module + "/internal/limiter", module + "/proof/truth"}, // the real code, and what it is held to
	"internal/limiter":    {module + "/proof/pages", module + "/proof/truth"},      // tables
	"internal/sale":       {module + "/proof/truth"},                               // what work buys
	"internal/token":      {jwt},                                                   // what reads our tokens
	"proof/players":       {module + "/middleware"},                                // how a site sells
	"middleware/exact":    {counters + "exacttest", counters + "memory", exactkit}, // the example
	"middleware/exact/engine": {
		counters + "exacttest", exactkit, // what every counter must pass
		counters + "memory", counters + "lease", // counters by this arithmetic
	},
	"middleware/exact/memory": {counters + "exacttest", exactkit, module + "/storeless"},
	"middleware/exact/lease":  {counters + "exacttest", exactkit, counters + "memory"},
	"middleware/exact/remote": {
		module + "/middleware/exact/exacttest", counters + "memory", exactkit, module + "/proof/pages",
	},
	"middleware/exact/pace": {exactkit, module + "/middleware/exact/remote", counters + "memory"}, // what its processes share
	"middleware/exact/cas": {
		module + "/middleware/exact/exacttest", exactkit,
		counters + "lease",                       // in front
		module + "/middleware/exact/cas/castest", // what every store must pass
	},

	"middleware/policyfile": {counters + "memory"}, // a counter to name
	"proof/exactkit":        {counters + "memory"}, // an engine to break

	"internal/clienttest":                      {module + "/middleware/middlewaretest", module + "/middleware/client", module + "/proof/pages"}, // the page, and our own client
	"middleware/middlewaretest/cmd/clienttest": {module + "/middleware/client"},
	"internal/npm":                             {module + "/internal/clienttest", module + "/proof/pages"}, // what fetch.js has to pass, and the page
}

// onlyIn narrows an arrow to some files.
var onlyIn = map[string][]string{validator: {"middleware/policyfile/shape.go"}}

func standard(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".")
}

// goFiles yields the Go files of the root module: not in nested modules,
// testdata or hidden directories.
func goFiles(t *testing.T) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(name, "go.mod"))
			if name != "." && (nested == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") {
			files = append(files, filepath.ToSlash(name))
		}
		return nil
	}))
	return files
}

func TestImports(t *testing.T) {
	atRoot(t)
	seen, used := map[string]bool{}, map[string][]string{}
	files := goFiles(t)
	for _, file := range files {
		parsed := kit.Must(parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly))(t)
		pkg := path.Dir(file)
		require.NotEqual(t, ".", pkg, "%s: the root holds no package", file)
		if pkg == "docs" || pkg == "proof/repository" {
			require.True(t, strings.HasSuffix(file, "_test.go"), "%s: there are tests alone", file)
			continue
		}
		may, listed := arrows[pkg]
		require.True(t, listed, "package %s has no row in the table of imports", pkg)
		test := strings.HasSuffix(file, "_test.go")
		seen[pkg] = seen[pkg] || !test
		if test {
			may = slices.Concat(may, inTests[pkg], []string{testify, mutants, kitPackage, module + "/" + pkg})
		}
		for _, spec := range parsed.Imports {
			name := kit.Must(strconv.Unquote(spec.Path.Value))(t)
			if standard(name) {
				continue
			}
			require.Contains(t, may, name, "%s imports what its package may not", file)
			if !test {
				used[pkg] = append(used[pkg], name)
			}
			if only, narrow := onlyIn[name]; narrow && !test {
				require.Contains(t, only, file, "%s is not for that file", name)
			}
		}
	}
	// A row without its package is one that was planned, or is gone: it permits an import without a review.
	for _, rows := range []map[string][]string{arrows, inTests, linked} {
		for pkg := range rows {
			require.True(t, seen[pkg], "the tables have a row for %s, which is no package", pkg)
		}
	}
	for pkg, row := range arrows { // so the table has no cycle, as the compiler permits none
		require.Subset(t, used[pkg], row, "%s may import what it does not", pkg)
	}
	for name, only := range onlyIn {
		require.Subset(t, files, only, "%s is for files that are not there", name)
	}
}

// The code that users link and the code that shows it to be right live apart. Only a test of the
// product may use the proof, in every module and under every build tag. The demo alone shows the attackers.
func TestProductDoesNotImportTheProof(t *testing.T) {
	atRoot(t)
	shown, looked := []string{`"` + module + `/proof/players"`, `"` + module + `/proof/fleet"`}, 0
	require.NoError(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "proof" || d.Name() == "node_modules" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		parsed := kit.Must(parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly))(t)
		for _, spec := range parsed.Imports {
			if filepath.Dir(name) == "demo" && slices.Contains(shown, spec.Path.Value) {
				continue
			}
			require.False(t, strings.HasPrefix(spec.Path.Value, `"`+module+`/proof/`),
				"%s imports %s: move what it needs into the product, or the file into proof/", name, spec.Path.Value)
		}
		looked++
		return nil
	}))
	require.Greater(t, looked, 300)
}

// The whole list of what the root module needs, so that one more is a decision.
func TestDependencies(t *testing.T) {
	atRoot(t)
	b := kit.Must(os.ReadFile("go.mod"))(t)
	var direct []string
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && strings.Contains(fields[0], ".") && !strings.Contains(line, "// indirect") {
			direct = append(direct, fields[0])
		}
	}
	slices.Sort(direct)
	require.Equal(t, []string{httpsfv, validator, jwt, "github.com/stretchr/testify"}, direct)
}

// Each module of the workspace adds its requirements to what "go test ./..." loads in a fresh clone: once they were 715 MB.
func TestWorkspace(t *testing.T) {
	atRoot(t)
	b := kit.Must(os.ReadFile("go.work"))(t)
	_, use, found := strings.Cut(string(b), "use (")
	require.True(t, found)
	require.Equal(t, []string{".", "./demo", "./proof/lab", ")"}, strings.Fields(use), "what does not run from the root is no part of go.work")
}

// Every package that others may import, and every module, is in the README, and nothing else. What
// is internal or in proof/ is not for others.
func TestPackagesAreNamed(t *testing.T) {
	atRoot(t)
	readme := kit.Must(os.ReadFile("README.md"))(t)
	var packages []string
	for pkg := range arrows {
		if strings.Contains("/"+pkg, "/internal/") || strings.HasPrefix(pkg, "proof/") {
			continue
		}
		if suite := path.Base(pkg); suite == "exacttest" || suite == "castest" || suite == "clienttest" || suite == "bounds" { // named in the row of its parent
			require.Contains(t, string(readme), "`"+suite+"`")
			continue
		}
		packages = append(packages, pkg)
	}
	nested := kit.Must(filepath.Glob("middleware/exact/*/go.mod"))(t)
	for _, file := range append(nested, "demo/go.mod", "middleware/otel/go.mod", "middleware/recipes/go.mod") {
		packages = append(packages, path.Dir(filepath.ToSlash(file)))
	}
	var named []string
	_, tables, err := pages.Read("README.md")
	require.NoError(t, err)
	for _, table := range tables {
		if !strings.HasPrefix(table.Head, "| package |") {
			continue
		}
		for _, row := range table.Rows {
			for link := range strings.SplitSeq(row[0], ", ") { // packages of a kind share a row
				name, _, _ := strings.Cut(strings.TrimPrefix(link, "[`"), "`")
				require.Equal(t, "[`"+name+"`]("+name+")", link)
				named = append(named, name)
			}
		}
	}
	require.ElementsMatch(t, packages, named)
}
