// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/gossip"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/pages"
	"github.com/tallystick/tallystick/storeless"
)

// tableOf returns the table of a page whose first line begins so.
func tableOf(t *testing.T, page, head string) [][]string {
	t.Helper()
	_, tables := read(t, page)
	i := slices.IndexFunc(tables, func(table pages.Table) bool { return strings.HasPrefix(table.Head, head) })
	require.GreaterOrEqual(t, i, 0, "%s has no table %s", page, head)
	return tables[i].Rows
}

// plain takes marks and links off a cell.
func plain(cell string) string {
	cell = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(cell, "$1")
	return strings.NewReplacer("`", "", "**", "").Replace(cell)
}

// The table of bounds is in docs/bounds.md. The package documentation and the README have some
// of its rows, and each row is shown by a test.
func TestBoundsAreOne(t *testing.T) {
	var source []string
	for _, row := range tableOf(t, "docs/bounds.md", "| client |") {
		source = append(source, plain(row[0])+"  "+plain(row[1]))
		name := plain(row[2])
		var files []string
		for _, dir := range []string{"proof/bounds", "proof/threats", "middleware"} {
			tests := kit.Must(filepath.Glob(dir + "/*_test.go"))(t)
			files = append(files, tests...)
		}
		require.True(t, slices.ContainsFunc(files, func(file string) bool {
			text := kit.Must(os.ReadFile(file))(t)
			return strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {")
		}), "no test of proof/bounds, proof/threats or middleware is called %s", name)
	}

	doc := kit.Must(os.ReadFile("middleware/doc.go"))(t)
	_, rest, found := strings.Cut(string(doc), "// # What it does not promise\n")
	require.True(t, found)
	promise, _, _ := strings.Cut(rest, "\n// # ")
	lines := regexp.MustCompile(`(?m)^//\t(.+)$`).FindAllStringSubmatch(promise, -1)
	require.GreaterOrEqual(t, len(lines), 3)
	for _, line := range lines {
		require.Contains(t, source, regexp.MustCompile(` {2,}`).ReplaceAllString(line[1], "  "), "middleware/doc.go")
	}

	rows := tableOf(t, "README.md", "| client |")
	require.Len(t, rows, 3)
	for _, row := range rows {
		require.Contains(t, source, plain(row[0])+"  "+plain(row[1]), "README.md")
	}
}

// What peers bound is in docs/bounds.md: each row is shown by a test, and the slack is the one of the code.
func TestPeersAreBounded(t *testing.T) {
	for _, row := range tableOf(t, "docs/bounds.md", "| client | serverless |") {
		name, shown := plain(row[4]), false
		for _, dir := range []string{"middleware", "internal/gossip"} {
			tests := kit.Must(filepath.Glob(dir + "/*_test.go"))(t)
			shown = shown || slices.ContainsFunc(tests, func(file string) bool {
				text := kit.Must(os.ReadFile(file))(t)
				return strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {")
			})
		}
		require.True(t, shown, "no test of middleware or internal/gossip is called %s", name)
	}
	const n = 10
	r := gossip.New(gossip.Config{Name: n, Records: 16})
	for peer := range uint64(n - 1) {
		r.Joined(time.Unix(0, 0), peer+1)
	}
	rows := tableOf(t, "docs/bounds.md", "| ten processes, L |")
	for i, quota := range []int64{5, 20, 60, 100, 1000} {
		f := r.Look(gossip.Limit{Key: 1, Seconds: 60}, quota).Slack
		require.Equal(t, []string{fmt.Sprint(f), fmt.Sprint(quota + (n-1)*f)}, []string{rows[0][1+i], strings.ReplaceAll(rows[1][1+i], ",", "")}, "L = %d", quota)
	}
}

// The block of "Your table" is what is printed for the configuration of ExampleBoundsOf.
func TestYourTable(t *testing.T) {
	bounds := kit.Must(middleware.BoundsOf(middleware.Config{
		Policy:    "contact",
		Limits:    []middleware.Limit{{Quota: 5, Window: time.Hour}, {Quota: 20, Window: 24 * time.Hour}},
		Challenge: &middleware.Challenge{Mode: middleware.Newcomers},
		Instances: 10,
	}))(t)
	page := kit.Must(os.ReadFile("docs/bounds.md"))(t)
	require.Contains(t, string(page), "\n```text\n"+bounds.String()+"```\n", "go test -run ExampleBoundsOf ./middleware prints it")
}

// constants returns the names and the values of a package's constants of a type, in order: "" is for those
// that have none.
func constants(t *testing.T, dir, typ string) (names, values []string) {
	t.Helper()
	require.NoError(t, noticed())
	all := kit.Must(pages.Constants(dir))(t)
	for _, c := range all {
		if c.Type == typ {
			names, values = append(names, c.Name), append(values, c.Value)
		}
	}
	return names, values
}

// first returns the first column of a table.
func first(rows [][]string) (column []string) {
	for _, row := range rows {
		column = append(column, plain(row[0]))
	}
	return column
}

func TestModesAreNamed(t *testing.T) {
	modes, _ := constants(t, "middleware", "Mode")
	require.Equal(t, append([]string{"no Challenge"}, modes...), first(tableOf(t, "docs/forms.md", "| mode |")))
}

// Tokens carry four of the algorithms; the two others have no clock but the counter's.
func TestAlgorithmsAreNamed(t *testing.T) {
	all, _ := constants(t, "storeless", "Algorithm")
	var carried []string
	for i, name := range all {
		limit := storeless.Limit{Algorithm: storeless.Algorithm(i), Quota: 1, Window: 24 * time.Hour}
		if _, err := limiter.Compile("docs", []storeless.Limit{limit}); err == nil {
			carried = append(carried, name)
		}
	}
	require.ElementsMatch(t, carried, first(tableOf(t, "docs/bounds.md", "| algorithm |")))
}

// Each counter of the table is there, and each module of a counter is in the table.
func TestCountersAreNamed(t *testing.T) {
	var linked []string
	for _, row := range tableOf(t, "docs/counters.md", "| counter |") {
		at := strings.TrimPrefix(link.FindStringSubmatch(row[0])[1], "../")
		linked = append(linked, at)
		// TestDeadline of exact/file and exact/cas and TestDeadlinesOfCounters of package middleware have the numbers.
		slow := slices.Contains([]string{"file", "cas", "nats", "dynamodb", "sql"}, path.Base(at)) // all but the first stand on cas
		require.Equal(t, map[bool]string{true: "250 ms", false: "50 ms"}[slow], row[2], at)
	}
	modules := kit.Must(filepath.Glob("middleware/exact/*/go.mod"))(t)
	for _, file := range modules {
		require.Contains(t, linked, path.Dir(filepath.ToSlash(file)))
	}
}

// The reasons for which a proof is asked for are in the code.
func TestReasonsAreNamed(t *testing.T) {
	names, values := constants(t, "middleware", "Reason")
	var reasons []string
	for i, name := range names {
		if strings.HasPrefix(strings.ToLower(name), "proof") || name == "NoToken" || name == "MemoryFull" {
			reasons = append(reasons, values[i])
		}
	}
	require.ElementsMatch(t, reasons, first(tableOf(t, "docs/clients.md", "| reason |")))
}

// The addresses of problem types are on the wire: each of ours is a heading.
func TestProblemTypesHaveAPage(t *testing.T) {
	const page = "docs/clients.md"
	registered := []string{"quota-exceeded", "temporary-reduced-capacity"}
	headings, ours := anchors(t, page), 0
	names, values := constants(t, "middleware/internal/page", "")
	for i, name := range names {
		switch {
		case name == "documented":
			require.Equal(t, "https://github.com/tallystick/tallystick/blob/main/"+page+"#", values[i])
		case strings.HasPrefix(name, "type") && !slices.Contains(registered, values[i]):
			require.True(t, headings[values[i]], values[i])
			ours++
		}
	}
	require.Equal(t, 3, ours)
}

// TestPassesAreTrue compiles the passes of docs/bounds.md. "n/w" is a limit, and "n in all" what
// does not come back while the tally lives.
func TestPassesAreTrue(t *testing.T) {
	for _, row := range tableOf(t, "docs/bounds.md", "| limits | `PassTime` |") {
		var limits []storeless.Limit
		for i, text := range strings.Split(row[0], ", ") {
			quota, window, _ := strings.Cut(text, "/")
			n := kit.Must(strconv.ParseInt(quota, 10, 64))(t)
			w := kit.Must(time.ParseDuration(window))(t)
			limits = append(limits, storeless.Limit{Name: fmt.Sprint(i), Quota: n, Window: w})
		}
		memory := kit.Must(time.ParseDuration(row[1]))(t)
		policy := kit.Must(limiter.Compile("docs", limits))(t)
		pass, now := policy.Pass(memory), time.Unix(0, 0)
		var has []string
		for i, text := range strings.Split(row[0], ", ") {
			_, window, _ := strings.Cut(text, "/")
			quota := pass.Limit(i).Quota
			// Used up, what comes back in two windows?
			only, _ := limiter.Compile("docs", limits[i:i+1])
			full, _ := only.Pass(memory).Step(now, limiter.Tally{}, 1)
			later := only.Pass(memory).Peek(now.Add(2*limits[i].Window), full, 0)
			if later.Limits[0].Remaining == only.Pass(memory).Limit(0).Quota {
				has = append(has, fmt.Sprintf("%d/%s", quota, window))
			} else {
				has = append(has, fmt.Sprintf("%d in all", quota))
			}
		}
		require.Equal(t, row[2], strings.Join(has, ", "), row)
		life := kit.Must(time.ParseDuration(row[3]))(t)
		require.Equal(t, life, policy.PassLife(memory), row)
	}
}

// docs/wire.md shows what each constant sends, letter for letter.
func TestChoicesOfFieldsAreTrue(t *testing.T) {
	constants := map[string]middleware.Fields{
		"`RateLimitFields`, the default": middleware.RateLimitFields,
		"`XRateLimitInSeconds`":          middleware.XRateLimitInSeconds,
	}
	field := regexp.MustCompile("`([^`:]+): ([^`]+)`")
	rows := tableOf(t, wirePage, "| `Config.Fields` |")
	require.Len(t, rows, len(constants))
	for _, row := range rows {
		chosen, known := constants[row[0]]
		require.True(t, known, row[0])
		limit := kit.Must(middleware.New(middleware.Config{
			Policy: "contact",
			Limits: []middleware.Limit{
				{Name: "minute", Algorithm: middleware.FixedWindow, Quota: 2, Window: time.Minute},
				{Name: "day", Algorithm: middleware.FixedWindow, Quota: 5, Window: 24 * time.Hour},
			},
			Secrets: [][]byte{[]byte("a secret of a test, 32 bytes long")},
			Fields:  chosen,
			Now:     func() time.Time { return time.Unix(20_000*86_400+10, 0) },
		}))(t)
		w := httptest.NewRecorder()
		limit.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
		shown, sent := map[string]string{}, map[string]string{}
		for _, f := range field.FindAllStringSubmatch(row[1], -1) {
			shown[strings.ToLower(f[1])] = f[2]
		}
		for name := range w.Header() {
			if name = strings.ToLower(name); strings.Contains(name, "ratelimit") {
				sent[name] = w.Header().Get(name)
			}
		}
		require.Equal(t, sent, shown, row[0])
	}
}

// The draft of the RateLimit fields is named once, in the documentation of package middleware, so that
// the next one is one line. The choice of fields names the older ones that it spells.
func TestDraftIsNamedOnce(t *testing.T) {
	numbered := regexp.MustCompile(`(?i)(?:draft-ietf-httpapi-)?ratelimit-headers-[0-9]+|\bdraft[- ][0-9]+`)
	var named []string
	for _, page := range everyPage(t) {
		text := kit.Must(os.ReadFile(page))(t)
		named = append(named, numbered.FindAllString(string(text), -1)...)
	}
	files := kit.Must(filepath.Glob("middleware/*.go"))(t)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := kit.Must(parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution))(t)
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
