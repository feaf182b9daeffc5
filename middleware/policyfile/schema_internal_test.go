// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"bytes"
	"encoding/json"
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
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

const schemaFile = "../../docs/policyfile.schema.json"

// TestSchema: the published schema is what follows from the types that the reader follows. The
// file is made by
//
//	TALLYSTICK_SCHEMA=write go test -run TestSchema
//
// That both accept the same files is tested by demo/reload_test.go, with a validator that is
// not ours.
func TestSchema(t *testing.T) {
	s := schema{defs: map[string]any{}}
	root := s.object(reflect.TypeFor[fileKeys]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = "https://raw.githubusercontent.com/tallystick/tallystick/main/docs/policyfile.schema.json"
	root["title"] = "Tallystick policies"
	root["description"] = "A file for policyfile.Open; see docs/policyfile.md. What values mean together is checked by Open."
	root["$defs"] = s.defs
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	require.NoError(t, encoder.Encode(root))
	if os.Getenv("TALLYSTICK_SCHEMA") == "write" {
		require.NoError(t, os.WriteFile(schemaFile, text.Bytes(), 0o644))
	}
	published := kit.Must(os.ReadFile(schemaFile))(t)
	require.Equal(t, string(published), text.String(), "TALLYSTICK_SCHEMA=write go test -run TestSchema makes it anew")
}

type schema struct{ defs map[string]any }

// A rule holds what a tag asks of a value, of the names in it, and of each thing in it.
type rule struct{ least, most, form, names, each string }

func ruleOf(tag string) (r rule) {
	own, inner, _ := strings.Cut(tag, "dive")
	if _, keys, there := strings.Cut(inner, ",keys,"); there {
		r.names, inner, _ = strings.Cut(keys, ",endkeys")
	}
	r.each = strings.TrimPrefix(inner, ",")
	for part := range strings.SplitSeq(own, ",") {
		switch name, bound, _ := strings.Cut(part, "="); {
		case name == "min":
			r.least = bound
		case name == "max":
			r.most = bound
		case forms[name].expression != nil:
			r.form = name
		}
	}
	return r
}

// of returns the schema of a value with the rules of a tag.
func (s *schema) of(typ reflect.Type, tag string) map[string]any {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	r := ruleOf(tag)
	with := func(m map[string]any, min, max string) map[string]any {
		for key, text := range map[string]string{min: r.least, max: r.most} {
			if text != "" {
				m[key] = json.Number(text)
			}
		}
		return m
	}
	if names := words[typ]; names != nil {
		var all []string
		for _, w := range names {
			all = append(all, w.text)
		}
		return map[string]any{"enum": all}
	}
	if typ == reflect.TypeFor[time.Duration]() {
		return formed("duration")
	}
	switch typ.Kind() {
	case reflect.Struct:
		name := strings.TrimSuffix(typ.Name(), "Keys")
		if _, known := s.defs[name]; !known {
			s.defs[name] = nil
			s.defs[name] = s.object(typ)
		}
		return map[string]any{"$ref": "#/$defs/" + name}
	case reflect.Map:
		return with(map[string]any{
			"type": "object", "propertyNames": formed(r.names), "additionalProperties": s.of(typ.Elem(), r.each),
		}, "minProperties", "maxProperties")
	case reflect.Slice:
		return with(map[string]any{"type": "array", "items": s.of(typ.Elem(), r.each)}, "minItems", "maxItems")
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return formed(r.form)
	case reflect.Int, reflect.Int64:
		return with(map[string]any{"type": "integer"}, "minimum", "maximum")
	}
	panic(typ.String())
}

// formed returns the schema of a string of a form.
func formed(name string) map[string]any {
	m := map[string]any{"type": "string"}
	if f, ok := forms[name]; ok {
		m["pattern"] = f.expression.String()
		if f.least > 0 {
			m["minLength"] = f.least
		}
	}
	return m
}

func (s *schema) object(typ reflect.Type) map[string]any {
	properties := map[string]any{}
	object := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	var required []string
	for f := range typ.Fields() {
		key := f.Tag.Get("json")
		switch first, _, _ := strings.Cut(f.Tag.Get("validate"), ","); first {
		case "required_without=File": // one of two
			object["minProperties"], object["maxProperties"] = 1, 1
		case "required_without=Calendar":
			object["anyOf"] = []any{map[string]any{"required": []string{key}}, map[string]any{"required": []string{"calendar"}}}
		}
		property := s.of(f.Type, f.Tag.Get("validate"))
		property["description"] = f.Tag.Get("doc")
		properties[key] = property
		if first, _, _ := strings.Cut(f.Tag.Get("validate"), ","); first == "required" {
			required = append(required, key)
		}
	}
	if required != nil {
		object["required"] = required
	}
	return object
}

const page = "../../docs/policyfile.md"

func readPage(t *testing.T) string {
	t.Helper()
	text := kit.Must(os.ReadFile(page))(t)
	return string(text)
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
	set := kit.Must(openExample(t))(t)
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

// Every field of these types has a key of its name and type, or is named here with the reason
// why a file cannot have it. A new field needs a key, or a line.
func TestEveryFieldHasAKey(t *testing.T) {
	covers(t, reflect.TypeFor[middleware.Config](), reflect.TypeFor[policyKeys](), "", map[string]string{
		"Policy":         "it is the name under which the policy stands",
		"Cost":           "code",
		"Peers":          "a group of the program",
		"LimitsFor.Func": "code",
		"Skip":           "code",
		"RefusalHandler": "code",
		"PageHandler":    "code",
		"OnDecision":     "code",
		"Logger":         "code",
		"Now":            "code",
	})
}

// covers checks that keys have what of has, and nothing else.
func covers(t *testing.T, of, keys reflect.Type, at string, exempt map[string]string) {
	t.Helper()
	for f := range of.Fields() {
		path := at + f.Name
		key, there := keys.FieldByName(f.Name)
		if _, is := exempt[path]; is || f.Name == "_" {
			require.False(t, is && there, "%s has a key", path)
			continue
		}
		require.True(t, there, "%s has neither a key in keys.go nor a line here", path)
		require.Equal(t, strings.ToLower(f.Name[:1])+f.Name[1:], key.Tag.Get("json"), path)
		require.NotEmpty(t, key.Tag.Get("doc"), path)
		if key.Tag.Get("file") == "apart" {
			continue
		}
		bare := func(typ reflect.Type) reflect.Type {
			for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice && (typ.Elem().Kind() == reflect.Struct || words[typ.Elem()] != nil) {
				typ = typ.Elem()
			}
			return typ
		}
		if to, from := bare(f.Type), bare(key.Type); to.Kind() == reflect.Struct {
			covers(t, to, from, path+".", exempt)
		} else {
			require.Equal(t, to, from, path)
		}
	}
	for f := range keys.Fields() {
		_, there := of.FieldByName(f.Name)
		require.True(t, there, "%s%s sets no field", at, f.Name)
	}
}

// Every constant has a word: middleware knows no value after the last.
func TestWords(t *testing.T) {
	type config = middleware.Config
	for typ, set := range map[reflect.Type]func(*config, uint8){
		reflect.TypeFor[storeless.Algorithm](): func(c *config, v uint8) { c.Limits[0].Algorithm = storeless.Algorithm(v) },
		reflect.TypeFor[middleware.Mode](): func(c *config, v uint8) {
			c.Challenge = &middleware.Challenge{Mode: middleware.Mode(v)}
			if c.Challenge.Mode == middleware.WhenBusy {
				c.Challenge.BusyAtOnce = 1
			}
		},
		reflect.TypeFor[middleware.TokenTransport](): func(c *config, v uint8) { c.TokenTransport = middleware.TokenTransport(v) },
		reflect.TypeFor[middleware.Fields]():         func(c *config, v uint8) { c.Fields = middleware.Fields(v) },
		reflect.TypeFor[middleware.Outage]():         func(c *config, v uint8) { c.Exact.Outage = middleware.Outage(v) },
	} {
		problem := func(value uint8) error {
			c := config{
				Policy: "p", Limits: []middleware.Limit{{Quota: 1, Window: 24 * time.Hour}}, Secrets: [][]byte{[]byte(strings.Repeat("s", 32))},
			}
			if typ == reflect.TypeFor[middleware.Outage]() || typ == reflect.TypeFor[storeless.Algorithm]() {
				c.Exact = &middleware.Exact{Counter: memory.New(0, nil), Outage: middleware.FailOpen}
			}
			set(&c, value)
			return new(middleware.Middleware).Validate(c)
		}
		last := uint8(0)
		texts := map[string]bool{}
		for _, w := range words[typ] {
			require.NoError(t, problem(w.value), "%s %s", typ, w.text)
			texts[w.text], last = true, max(last, w.value)
			if v, ok := reflect.ValueOf(w.value).Convert(typ).Interface().(fmt.Stringer); ok {
				require.Equal(t, v.String(), w.text)
			}
		}
		require.Len(t, texts, len(words[typ]))
		next := last + 1
		if typ == reflect.TypeFor[middleware.Fields]() { // bits
			next = last << 1
		}
		require.Error(t, problem(next), "%s has more values than words", typ)
	}
}

func TestPathsOfFields(t *testing.T) {
	for field, want := range map[string]string{
		"Policy":                     "policy",
		"Limits[1].Quota":            "limits[1].quota",
		`Tiers["pro"]`:               "tiers.pro",
		`Tiers["pro"][0].Quota`:      "tiers.pro.limits[0].quota",
		`Tiers["a\"].[0]"][0].Burst`: `tiers["a\"].[0]"].limits[0].burst`,
		`Tiers[""]`:                  `tiers[""]`,
		"Challenge.WaitingRoom":      "challenge.waitingRoom",
		"ByOutcome":                  "byOutcome",
		`Concurrency.Tiers["pro"]`:   "concurrency.tiers.pro",
		"XRateLimit":                 "xRateLimit",
		"Secrets[3]":                 "secrets[3]",
		"":                           "",
	} {
		require.Equal(t, want, pathOf(field), field)
	}
}

// What a problem quotes is the owner's, and a zero or an empty text that Go has for a field is a key that is left out.
func TestSpelled(t *testing.T) {
	for problem, want := range map[string]string{
		`there is no tier "Free" in Config.Tiers`:                    `there is no tier "Free" in tiers`,
		`has the limit "b", which Units["Max"] has too`:              `has the limit "b", which units["Max"] has too`,
		"belongs to a Calendar; leave it empty without one":          "belongs to a calendar; leave it out without one",
		"must be from Net56Factor to 9, or 0 for 64 or a larger one": "must be from net56Factor to 9, or left out for 64 or a larger one",
		"asks for no work; leave Work 0":                             "asks for no work; leave work out",
		"must be FailOpen or FailClosed; there is no default":        `must be "fail-open" or "fail-closed"; there is no default`,
	} {
		require.Equal(t, want, spelled(problem))
	}
}
