// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// docs/checks.md prints each line as it is written, under the line's own code, and has no other of this package.
func TestAlarmsAreOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/checks.md")
	require.NoError(t, err)
	all := map[string]func(*alarms){
		"redis-clock-jumped": func(a *alarms) { a.wrongClock(2*time.Hour + 3*time.Millisecond) },
		"redis-away":         func(a *alarms) { a.away(errors.New("dial tcp 127.0.0.1:6379: connect: connection refused")) },
		"redis-evicts":       func(a *alarms) { a.evicts(errEvicts) },
		"redis-silent":       func(a *alarms) { a.silent(errors.New("NOPERM this user has no permissions")) },
		"redis-emptied":      func(a *alarms) { a.emptied(48211, 0) },
		"redis-unreadable": func(a *alarms) {
			a.unreadable("tallystick:{a6Zp8cVNmXlFE1uLGqCh3w}", errors.New("DAMAGED it is no account of this package, or not all of one"))
		},
	}
	for code, ring := range all {
		var log bytes.Buffer
		a := &alarms{log: slog.New(slog.NewTextHandler(&log, nil))}
		ring(a)
		line := regexp.MustCompile(`^time=\S+ `).ReplaceAllString(log.String(), "")
		require.Contains(t, line, " code="+code+" ")
		require.Contains(t, string(page), "\n### "+code+"\n")
		require.Contains(t, string(page), "```text\n"+line+"```\n")
	}
	require.Len(t, regexp.MustCompile(`(?m)^### redis-`).FindAll(page, -1), len(all))
	require.ElementsMatch(t, slices.Collect(maps.Keys(all)), codes(t))
}

// codes are those that the source of the package tells of.
func codes(t *testing.T) (all []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 3 {
				return true
			}
			method, called := call.Fun.(*ast.SelectorExpr)
			if code, literal := call.Args[1].(*ast.BasicLit); called && literal && method.Sel.Name == "tell" {
				all = append(all, strings.Trim(code.Value, `"`))
			}
			return true
		})
	}
	return all
}
