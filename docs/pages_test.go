// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/pages"
)

// What README.md and docs/ print is run or made by a test. A block or a table without one
// fails here, so that nothing new escapes.

// The tests name pages as the repository does, from its root.
func TestMain(m *testing.M) {
	if err := os.Chdir(".."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// noticed has the go command notice where the tests are, and so which files they read. It notices
// what happens within m.Run alone, and without this would say "(cached)" of pages that have changed.
var noticed = sync.OnceValue(func() error { return os.Chdir(".") })

// everyPage returns the README, all of docs, and what stands beside the tools that make it.
func everyPage(t *testing.T) []string {
	t.Helper()
	require.NoError(t, noticed())
	all := []string{"README.md"}
	for _, pattern := range []string{"docs/*.md", "proof/*/README.md"} {
		found := kit.Must(filepath.Glob(pattern))(t)
		all = append(all, found...)
	}
	require.Contains(t, all, "docs/bounds.md")
	return all
}

// read takes a page apart.
func read(t *testing.T, page string) ([]pages.Block, []pages.Table) {
	t.Helper()
	require.NoError(t, noticed())
	blocks, tables, err := pages.Read(page)
	require.NoError(t, err)
	return blocks, tables
}

// runners are the tests that run blocks, by language: blocks of a shell are run by the
// demo's tests, on every page there is.
var runners = map[string]string{
	"go":      "docs/go_test.go TestGoBlocks",
	"html":    "docs/go_test.go TestHTMLBlocks",
	"json":    "docs/go_test.go TestJSONBlocks",
	"sh":      "demo/session_test.go TestSessions",
	"console": "demo/session_test.go TestSessions",
}

// texts are the tests that read text, by page.
var texts = map[string]string{
	"docs/wire.md":   "docs/wire_test.go TestWireExamples",
	"docs/checks.md": "middleware/checks_test.go TestChecks",
}

// The pages can be read in an evening: evidence stands beside the tool that makes it.
func TestPagesAreShort(t *testing.T) {
	words := 0
	for _, page := range everyPage(t) {
		if !strings.HasPrefix(page, "proof/") {
			text := kit.Must(os.ReadFile(page))(t)
			words += len(strings.Fields(string(text)))
		}
	}
	require.LessOrEqual(t, words, 32_000, "README.md and docs/*.md: say less twice, or move figures beside the tool that makes them")
}

// requireTest checks that "file name" names a test that exists, and returns it.
func requireTest(t *testing.T, named, why string) *ast.FuncDecl {
	t.Helper()
	file, name, _ := strings.Cut(named, " ")
	require.True(t, strings.HasSuffix(file, "_test.go") && strings.HasPrefix(name, "Test"), "%s: %s", why, named)
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	require.NoError(t, err, why)
	for _, decl := range parsed.Decls {
		if function, ok := decl.(*ast.FuncDecl); ok && function.Name.Name == name && function.Recv == nil {
			return function
		}
	}
	require.Fail(t, "no such test", "%s: %s", why, named)
	return nil
}

func TestEverythingPrintedHasATest(t *testing.T) {
	for _, page := range everyPage(t) {
		blocks, tables := read(t, page)
		for _, b := range blocks {
			if b.From != "" {
				requireTest(t, "docs/go_test.go TestBlocksStandInTheirFiles", page)
				continue
			}
			runner, known := runners[b.Language]
			if b.Language == "text" {
				runner, known = texts[page], texts[page] != "" || b.RunBy != ""
			}
			require.True(t, known, "%s:%d: no test runs %q", page, b.Line, b.Language)
			switch b.RunBy {
			case "TestInstall":
				runner = "docs/go_test.go TestInstall"
			case "TestTryIt":
				runner = "demo/session_test.go TestTryIt"
			case "TestYourTable":
				runner = "docs/tables_test.go TestYourTable"
			case "TestMistakesOfThePage":
				runner = "middleware/policyfile/schema_internal_test.go TestMistakesOfThePage"
			case "TestTheWireIsThatOfItsPage":
				runner = "middleware/exact/remote/wire_test.go TestTheWireIsThatOfItsPage"
			default:
				require.Empty(t, b.RunBy, "%s:%d", page, b.Line)
			}
			requireTest(t, runner, page)
		}
		for _, table := range tables {
			require.NotEmpty(t, table.HeldBy, "%s: no test holds the table %s: name one in a comment before it, <!-- held by FILE TEST -->", page, table.Head)
			require.NotEmpty(t, table.Rows, "%s: %s", page, table.Head)
			requireTest(t, table.HeldBy, page)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	code    = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
)

// anchors are the fragments that GitHub gives the headings of a page.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	text := kit.Must(os.ReadFile(page))(t)
	all := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(string(text), -1) {
		kept := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
		all[strings.ReplaceAll(kept, " ", "-")] = true
	}
	return all
}

// An item of a list begins a line: within one it is read as a part of the item before.
func TestEachItemBeginsALine(t *testing.T) {
	for _, page := range append(everyPage(t), "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md") {
		text := code.ReplaceAllString(string(kit.Must(os.ReadFile(page))(t)), "code")
		require.NotRegexp(t, `[.:;,)] (\d\.|-) \S`, text, page)
	}
}

// Every link within the repository leads somewhere, to the heading.
func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range append(everyPage(t), "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md") {
		text := kit.Must(os.ReadFile(page))(t)
		for _, l := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			file, fragment, _ := strings.Cut(l[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			info, err := os.Stat(target)
			require.NoError(t, err, "%s: %s", page, l[1])
			if fragment != "" {
				require.False(t, info.IsDir(), "%s: %s", page, l[1])
				require.True(t, anchors(t, target)[fragment], "%s: %s has no such heading", page, l[1])
			}
		}
	}
}
