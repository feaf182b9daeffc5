// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
)

const page = "../../docs/policyfile.md"

func readPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	return string(text)
}

// TestKeysAreOnThePage: the tables of the page have every key. They are made by
//
//	TALLYSTICK_SCHEMA=write go test -run TestKeysAreOnThePage
func TestKeysAreOnThePage(t *testing.T) {
	text := readPage(t)
	explained := map[reflect.Type]bool{reflect.TypeFor[policyKeys](): true} // which has a table of its own
	for i, typ := range []reflect.Type{reflect.TypeFor[fileKeys](), reflect.TypeFor[policyKeys]()} {
		head := "| key of " + []string{"the file", "a policy"}[i] + " | what it is |\n"
		table := head + "|---|---|\n" + rows(typ, "", explained)
		found := regexp.MustCompile(regexp.QuoteMeta(head) + `(\|.*\n)*`)
		if os.Getenv("TALLYSTICK_SCHEMA") == "write" {
			text = found.ReplaceAllLiteralString(text, table)
			require.NoError(t, os.WriteFile(page, []byte(text), 0o644))
		}
		require.Equal(t, table, found.FindString(text), "TALLYSTICK_SCHEMA=write go test -run TestKeysAreOnThePage makes it anew")
	}
}

// rows are a table's lines for the keys of a type, and of what is below them, once for each type.
func rows(typ reflect.Type, at string, explained map[reflect.Type]bool) (text string) {
	for f := range typ.Fields() {
		key := f.Tag.Get("json")
		inner, suffix := f.Type, ""
		for inner.Kind() != reflect.Struct {
			switch inner.Kind() {
			case reflect.Pointer:
			case reflect.Slice:
				suffix += "[]"
			case reflect.Map:
				suffix += ".*"
			default:
				inner = reflect.TypeFor[struct{}]()
				continue
			}
			inner = inner.Elem()
		}
		text += fmt.Sprintf("| `%s%s` | %s%s |\n", at, key, f.Tag.Get("doc"), inBrackets(value(f.Type, f.Tag.Get("validate"))))
		if !explained[inner] {
			explained[inner] = inner.NumField() > 0
			text += rows(inner, at+key+suffix+".", explained)
		}
	}
	return text
}

// inBrackets puts what a key may have behind what it is. An object says it by its keys.
func inBrackets(value string) string {
	if value == "an object" {
		return ""
	}
	value = regexp.MustCompile(`(\d) to (\d)`).ReplaceAllString(value, "$1–$2")
	value = regexp.MustCompile(`^(an?|the) `).ReplaceAllString(value, "")
	return " (" + strings.NewReplacer("true or false", "boolean", ", each the name of a tier", "").Replace(value) + ")"
}

// value says in a few words what a key may have.
func value(typ reflect.Type, tag string) string {
	r := ruleOf(tag)
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if names, ok := words[typ]; ok {
		var all []string
		for _, w := range names {
			all = append(all, "`"+w.text+"`")
		}
		return strings.Join(all, ", ")
	}
	if typ == reflect.TypeFor[time.Duration]() {
		return "a duration"
	}
	must := strings.TrimPrefix(forms[r.form].must, "must be ")
	switch typ.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return r.least + " to " + r.most
	case reflect.String:
		if must != "" {
			return must
		}
		return "a string"
	case reflect.Slice:
		count := "a list"
		if r.least != "" {
			count += " of " + r.least + " to " + r.most
		}
		if elem := typ.Elem(); elem.Kind() != reflect.Struct {
			return count + ", each " + value(elem, r.each)
		}
		return count
	case reflect.Map:
		if typ.Elem().Kind() == reflect.Int {
			return "an object, each " + value(typ.Elem(), r.each)
		}
	}
	return "an object"
}

// openExample opens the example of the page with some of its text replaced, for the program that
// the page prints.
func openExample(t *testing.T, replace ...string) (*Set, error) {
	_, text, found := strings.Cut(readPage(t), "```json\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "```")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/ring", []byte(strings.Repeat("s", 32)), 0o400))
	replace = append(replace, "/run/secrets/tallystick", "ring")
	for i := 0; i < len(replace); i += 2 {
		require.Contains(t, text, replace[i])
		text = strings.Replace(text, replace[i], replace[i+1], 1)
	}
	require.NoError(t, os.WriteFile(dir+"/policies.json", []byte(text), 0o600))
	t.Chdir(dir)
	return Open("policies.json", Program{
		Policies: map[string]middleware.Config{"contact": {}, "login": {}, "api": {}},
		Counters: map[string]exact.Counter{"shared": memory.New(0, nil)},
	})
}

func TestExampleOfThePage(t *testing.T) {
	text := readPage(t)
	set, err := openExample(t)
	require.NoError(t, err)
	require.Contains(t, set.Middleware("contact").ScriptURL(), "/tally/contact/")
	require.NoError(t, Reload(set))
	for name := range set.limits {
		require.Contains(t, text, `"`+name+`": `)
	}
}

// The mistakes of the page are what Open says of the example with these mistakes in it. The page
// cuts a line that is long.
func TestMistakesOfThePage(t *testing.T) {
	printed := regexp.MustCompile(`(?m)^policies\.json:.*$`).FindAllString(readPage(t), -1)
	_, err := openExample(t, `"quota": 50,`, `"quota": 0,`, `"challenge"`, `"challange"`, `, "outage": "fail-open"`, ``)
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, printed, len(lines))
	for i, line := range printed {
		line, cut := strings.CutSuffix(line, "…")
		if !cut {
			require.Equal(t, lines[i], line)
		}
		require.True(t, strings.HasPrefix(lines[i], line), "%s\n%s", lines[i], line)
	}
}
