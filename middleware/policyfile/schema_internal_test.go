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

// of returns the schema of a value with the rules of a tag.
func (s *schema) of(typ reflect.Type, tag reflect.StructTag) map[string]any {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	least, most := bounds(tag.Get("validate"))
	with := func(m map[string]any, min, max string) map[string]any {
		for key, text := range map[string]string{min: least, max: most} {
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
			"type": "object", "propertyNames": formed(tag.Get("keys")), "additionalProperties": s.of(typ.Elem(), each(tag)),
		}, "minProperties", "maxProperties")
	case reflect.Slice:
		return with(map[string]any{"type": "array", "items": s.of(typ.Elem(), each(tag))}, "minItems", "maxItems")
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return formed(tag.Get("form"))
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
		if key == "" {
			if f.Tag.Get("file") == "one" {
				object["minProperties"], object["maxProperties"] = 1, 1
			}
			continue
		}
		property := s.of(f.Type, f.Tag)
		property["description"] = f.Tag.Get("doc")
		properties[key] = property
		if f.Tag.Get("file") == "required" {
			required = append(required, key)
		}
	}
	if required != nil {
		object["required"] = required
	}
	return object
}
