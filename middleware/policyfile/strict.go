package policyfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// members are what the objects of a file may hold, from the outside in. Tiers have any
// name, and a list is a level too.
var members = [...][]string{
	{"tiers"}, nil, {"limits"}, nil, {"name", "algorithm", "quota", "window", "burst"},
}

// allowed says, field by field, what a file may hold.
var allowed = map[string]string{
	"tiers":     "must hold at least one tier",
	"limits":    "must hold 1 to 8 limits",
	"algorithm": "must be sliding-window, fixed-window, token-bucket or leaky-bucket, or with an exact counter sliding-log or rolling-day",
	"quota":     "must be from 1 to 2147483647",
	"window":    `must be a duration such as "1s", "15m" or "24h"`,
	"burst":     "must be from 1 to 2147483647, or left out for the quota",
}

// mostLevels is deeper than tiers ever are.
const mostLevels = 9

var errDeep = errors.New("too many levels")

// walk reads JSON and reports each member that is there twice, of which one would be
// taken in silence, and each that has no meaning where it stands, also if only its case
// is wrong. The error is about what is no JSON at all.
func walk(text []byte, problem func(path, text string)) error {
	d := json.NewDecoder(bytes.NewReader(text))
	var value func(path string, level int) error
	value = func(path string, level int) error {
		t, err := d.Token()
		if err != nil {
			return err
		}
		if level > mostLevels {
			return errDeep
		}
		var known []string
		if level < len(members) {
			known = members[level]
		}
		seen := make(map[string]bool)
		switch t {
		case json.Delim('{'):
			for d.More() {
				t, err := d.Token()
				if err != nil {
					return err
				}
				name, _ := t.(string)
				member := strings.TrimPrefix(path+"."+name, ".")
				if level == 1 {
					member = path + "[" + name + "]"
				} else if len(known) > 0 && !slices.Contains(known, name) {
					problem(member, "is none of "+strings.Join(known, ", "))
				}
				if seen[name] {
					problem(member, "is there twice")
				}
				seen[name] = true
				if err := value(member, level+1); err != nil {
					return err
				}
			}
			_, err = d.Token()
		case json.Delim('['):
			for i := 0; d.More(); i++ {
				if err := value(fmt.Sprintf("%s[%d]", path, i), level+1); err != nil {
					return err
				}
			}
			_, err = d.Token()
		}
		return err
	}
	err := value("", 0)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return nil
		}
		err = errors.New("there is more after the end")
	}
	return syntax(text, d.InputOffset(), err)
}

// syntax says what is wrong with what is no JSON, and where.
func syntax(text []byte, offset int64, err error) error {
	var wrong *json.SyntaxError
	if errors.As(err, &wrong) {
		offset = wrong.Offset
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("ends too early; it must be a JSON object with tiers")
	}
	return fmt.Errorf("line %d: %s", line(text, offset), strings.TrimPrefix(err.Error(), "json: "))
}

// mistyped says which value has not the type it must have.
func mistyped(text []byte, err error) string {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err.Error()
	}
	field := wrong.Field[strings.LastIndex(wrong.Field, ".")+1:]
	must := allowed[field]
	switch wrong.Type.Kind() {
	case reflect.Struct, reflect.Map:
		field, must = strings.TrimSpace("what is in "+wrong.Field), "must be an object"
		if wrong.Field == "" {
			field = "the file"
		}
	case reflect.Slice:
		must = "must be a list"
	case reflect.String:
		must = cmp.Or(must, "must be a string")
	}
	return fmt.Sprintf("line %d: %s %s, not a JSON %s", line(text, wrong.Offset), field, must, wrong.Value)
}

func line(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(offset, int64(len(text)))], []byte("\n"))
}
