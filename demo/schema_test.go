// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/policyfile"
)

const schemaFile = "../docs/policyfile.schema.json"

// A validator that is not ours takes a file by the published schema if and only if policyfile
// does. The files are drawn from the schema, with mistakes of every kind in some places: each
// rule of the schema is at its bound, one before and one after.
func TestSchemaAndReaderAgree(t *testing.T) {
	text, err := os.ReadFile(schemaFile)
	require.NoError(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("policyfile", document))
	schema, err := compiler.Compile("policyfile")
	require.NoError(t, err)

	g := generator{rand.New(rand.NewPCG(18, 1)), document.(map[string]any), 0, map[string]*regexp.Regexp{}}
	accepted, refused := 0, 0
	for i := range 6000 {
		g.mistakes = []int{0, 300, 60, 15}[i%4]
		file, err := json.Marshal(g.value(g.root))
		require.NoError(t, err)
		read, err := jsonschema.UnmarshalJSON(bytes.NewReader(file))
		require.NoError(t, err)
		bySchema, byUs := schema.Validate(read), policyfile.Check("f", file)
		require.Equal(t, bySchema == nil, byUs == nil, "%s\nschema: %v\npolicyfile: %v", file, bySchema, byUs)
		if byUs == nil {
			accepted++
		} else {
			refused++
		}
		require.True(t, g.mistakes > 0 || byUs == nil, "%s\n%v", file, byUs)
	}
	require.Greater(t, accepted, 2000)
	require.Greater(t, refused, 2000)
}

// A generator draws values that a schema permits, and one in so many places a mistake.
type generator struct {
	*rand.Rand
	root     map[string]any
	mistakes int // one in so many; 0: none

	compiled map[string]*regexp.Regexp
}

// strays are values of every kind; strings of every form are among them.
var strays = []any{
	nil, true, 0, 1, -1, 1.5, 1e30, json.Number("1.0"), json.Number("2e1"), json.Number("10e-1"), json.Number("1e-1"), "", " ", "a", "A", "-", "peer", "header", "off", "fail-open", "1s", "1m", "24h", "1h30m",
	"01m1s", "1d", "1.5h", "-1s", "1m1h", "ms", "1ms", "999999h", "sliding-window", "TALLYSTICK_SECRETS", "9A", "/run/secrets/tally", "X-Real-IP", "10.0.0.0/8", "2001:db8::/32", "10.0.0.0",
	"/", "/tally/contact/", "/tally", "//", "tally/", "/t lly/", "contact", "Contact", strings.Repeat("a", 32), strings.Repeat("a", 33), strings.Repeat("a", 48), strings.Repeat("a", 49),
	"a\n", "\u0000", "é", "\u2028", []any{}, []any{"a"}, map[string]any{}, map[string]any{"a": 1},
}

func (g *generator) wrong() bool { return g.mistakes > 0 && g.IntN(g.mistakes) == 0 }

func (g *generator) value(schema map[string]any) any {
	if ref, ok := schema["$ref"].(string); ok {
		schema = g.root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	if g.wrong() {
		return strays[g.IntN(len(strays))]
	}
	if words, ok := schema["enum"].([]any); ok {
		return words[g.IntN(len(words))]
	}
	switch schema["type"] {
	case "boolean":
		return g.IntN(2) == 0
	case "integer":
		return g.number(schema, "minimum", "maximum")
	case "string":
		return g.text(schema)
	case "array":
		list := []any{}
		for range g.count(schema, "minItems", "maxItems") {
			list = append(list, g.value(schema["items"].(map[string]any)))
		}
		return list
	}
	object := map[string]any{}
	if names, ok := schema["propertyNames"].(map[string]any); ok {
		for range g.count(schema, "minProperties", "maxProperties") {
			object[g.text(names)] = g.value(schema["additionalProperties"].(map[string]any))
		}
		return object
	}
	properties := schema["properties"].(map[string]any)
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	g.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	required, _ := schema["required"].([]any)
	for _, name := range names {
		switch {
		case slices.Contains(required, any(name)):
			if g.wrong() {
				continue
			}
		case schema["maxProperties"] != nil && len(object) > 0 && !g.wrong(), schema["maxProperties"] == nil && g.IntN(3) > 0:
			continue
		}
		object[name] = g.value(properties[name].(map[string]any))
	}
	if g.wrong() {
		object[[]string{"", "Limits", "limit", "x.y", "quota", "env"}[g.IntN(6)]] = strays[g.IntN(len(strays))]
	}
	return object
}

func bound(schema map[string]any, key string, otherwise int64) int64 {
	if text, ok := schema[key].(json.Number); ok {
		n, _ := text.Int64()
		return n
	}
	return otherwise
}

// number draws a whole number, often at a bound; a mistake is one past it.
func (g *generator) number(schema map[string]any, least, most string) int64 {
	low, high := bound(schema, least, 0), bound(schema, most, 1<<40)
	switch {
	case g.wrong():
		return []int64{low - 1, high + 1, -high}[g.IntN(3)]
	case g.IntN(3) == 0:
		return []int64{low, high}[g.IntN(2)]
	}
	return low + g.Int64N(high-low+1)
}

// count draws a length, small but for mistakes; a long one is a mistake or the bound.
func (g *generator) count(schema map[string]any, least, most string) int64 {
	low, high := bound(schema, least, 0), bound(schema, most, 1<<40)
	switch {
	case g.wrong() && high < 20:
		return high + g.Int64N(2)
	case g.wrong():
		return max(0, low-1)
	}
	return low + g.Int64N(min(3, high-low+1))
}

func (g *generator) text(schema map[string]any) string {
	pattern, _ := schema["pattern"].(string)
	expression := g.compiled[pattern]
	if expression == nil {
		expression = regexp.MustCompile(pattern)
		g.compiled[pattern] = expression
	}
	for {
		text, is := strays[g.IntN(len(strays))].(string)
		if is && (g.wrong() || expression.MatchString(text) && int64(len(text)) >= bound(schema, "minLength", 0)) {
			return text
		}
	}
}
