// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const schemaFile = "../../docs/policyfile.schema.json"

// TestSchema: the published schema is what follows from the types that the reader follows. The
// file is made by
//
//	TALLYSTICK_SCHEMA=write go test -run TestSchema
//
// That both accept the same files is tested by demo/schema_test.go, with a validator that is
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
	published, err := os.ReadFile(schemaFile)
	require.NoError(t, err)
	require.Equal(t, string(published), text.String(), "TALLYSTICK_SCHEMA=write go test -run TestSchema makes it anew")
}

type schema struct{ defs map[string]any }

// A rule is what a tag asks of a value, of the names in it, and of each thing in it.
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
