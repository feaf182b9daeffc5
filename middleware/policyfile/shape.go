// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-playground/validator/v10"
)

// A shape decodes a file into the types of keys.go, and checks keys and types of values. Tags
// hold the other rules for single values; validator checks them. All problems are reported.
// Rules about several values are left to the callers.
type shape struct {
	*problems
	paths map[string]string // by what validator calls a value
}

// readShape reads text into a pointer to one of the types of keys.go. Wrong values are left out,
// and the problems are not nil.
func readShape(name string, text []byte, to any) *problems {
	p := &problems{name: name, places: map[string]place{}}
	root, err := parse(text)
	if err != nil {
		p.put("", root.line)
		p.add("", "%s", err)
		return p
	}
	s := shape{p, map[string]string{}}
	keys := reflect.ValueOf(to).Elem()
	s.read(root, keys, "", keys.Type().Name())
	p.unread = len(p.found)
	s.check(to)
	p.shape = len(p.found)
	return p
}

// rules is a validator that knows the keys and the forms.
var rules = sync.OnceValue(func() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(func(f reflect.StructField) string { return f.Tag.Get("json") })
	for name, f := range forms {
		if err := v.RegisterValidation(name, func(l validator.FieldLevel) bool { return f.fits(l.Field().String()) }); err != nil {
			panic(err)
		}
	}
	return v
})

// check reports what the tags of keys do not permit.
func (s *shape) check(keys any) {
	wrong := map[string]bool{} // what is not of its type is not there, and no tag needs to say so
	for _, f := range s.found {
		wrong[f.path] = true
	}
	var all []found
	var broken validator.ValidationErrors
	errors.As(rules().Struct(keys), &broken)
	for _, e := range broken {
		path, there := s.paths[e.Namespace()]
		if object := s.paths[strings.TrimSuffix(e.Namespace(), "."+e.Field())]; e.Param() == "File" {
			if path = object; s.below(path) {
				continue
			}
		} else if !there {
			path = join(object, e.Field())
		}
		if !within(path, func(at string) bool { return wrong[at] }) {
			all = append(all, found{s.placeOf(path), path, demandOf(e)})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(a.nth, b.nth) }) // validator goes through maps in any order
	for _, f := range all {
		s.add(f.path, "%s", f.text)
	}
}

// demandOf says what a tag asks for. It shows only numbers: another value may be a secret in the
// wrong place.
func demandOf(e validator.FieldError) string {
	switch tag := e.Tag(); tag {
	case "required":
		return "is required"
	case "required_without", "excluded_with":
		if e.Param() == "Calendar" {
			return "is required, or a calendar"
		}
		return "must have one of env, file"
	case "min", "max":
		bound := map[string]string{"min": "at least", "max": "at most"}[tag]
		if v := reflect.ValueOf(e.Value()); v.CanInt() {
			return fmt.Sprintf("must be %s %s, not %d", bound, e.Param(), v.Int())
		}
		return fmt.Sprintf("must have %s %s, not %d", bound, e.Param(), reflect.ValueOf(e.Value()).Len())
	default:
		return forms[tag].must
	}
}

// read reads n, which stands at path and which validator calls name.
func (s *shape) read(n node, to reflect.Value, path, name string) {
	s.put(path, n.line)
	s.paths[name] = path
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	switch kind := to.Kind(); {
	case words[to.Type()] != nil:
		s.readWord(n, to, path)
	case to.Type() == reflect.TypeFor[time.Duration]():
		s.readDuration(n, to, path)
	case kind == reflect.Struct:
		s.readObject(n, to, path, name)
	case kind == reflect.Map:
		if members, is := as[[]member](s, n, path, "an object"); is {
			to.Set(reflect.MakeMap(to.Type()))
			for _, m := range members {
				if at := join(path, m.name); !s.twice(at, m) {
					v := reflect.New(to.Type().Elem()).Elem()
					s.read(m.node, v, at, name+"["+m.name+"]")
					to.SetMapIndex(reflect.ValueOf(m.name), v)
				}
			}
		}
	case kind == reflect.Slice:
		if elements, is := as[[]node](s, n, path, "a list"); is {
			to.Set(reflect.MakeSlice(to.Type(), len(elements), len(elements)))
			for i, e := range elements {
				s.read(e, to.Index(i), element(path, i), element(name, i))
			}
		}
	case kind == reflect.String:
		text, _ := as[string](s, n, path, "a string")
		to.SetString(text)
	case kind == reflect.Bool:
		b, _ := as[bool](s, n, path, "true or false")
		to.SetBool(b)
	default:
		s.readNumber(n, to, path)
	}
}

// as returns what n is, or reports that it is something else.
func as[T any](s *shape, n node, path, what string) (T, bool) {
	v, is := n.value.(T)
	if !is {
		s.add(path, "must be %s, not %s", what, n.kind())
	}
	return v, is
}

// noSecretsHere says what to do, and nothing of what is there.
const noSecretsHere = `secrets must not stand in this file: put them in an environment variable or a file of their own, and write {"env": "NAME"} or {"file": "PATH"} here`

func (s *shape) readObject(n node, to reflect.Value, path, name string) {
	secret := to.Type() == reflect.TypeFor[secretKeys]()
	if _, is := n.value.([]member); !is && secret {
		s.add(path, "%s", noSecretsHere)
		return
	}
	members, _ := as[[]member](s, n, path, "an object")
	var known []string
	for f := range to.Type().Fields() {
		known = append(known, f.Tag.Get("json"))
	}
	for _, m := range members {
		at := join(path, m.name)
		switch i := slices.Index(known, m.name); {
		case i < 0 && secret: // its name may be one
			s.add(path, "holds what is none of %s; %s", strings.Join(known, ", "), noSecretsHere)
		case i < 0:
			s.put(at, m.line)
			s.add(at, "is none of %s", strings.Join(known, ", "))
		case !s.twice(at, m):
			s.read(m.node, to.Field(i), at, name+"."+m.name)
		}
	}
}

// twice reports a repeated member. Otherwise one of the two would win in silence.
func (s *shape) twice(at string, m member) bool {
	_, twice := s.places[at]
	if twice {
		s.put(at, m.line)
		s.add(at, "is there twice")
	}
	return twice
}

func (s *shape) readWord(n node, to reflect.Value, path string) {
	text, _ := n.value.(string)
	var all []string
	for _, w := range words[to.Type()] {
		if all = append(all, w.text); w.text == text {
			to.SetUint(uint64(w.value))
			return
		}
	}
	last, got := len(all)-1, n.kind()
	if text != "" {
		got = told(text)
	}
	s.add(path, "must be %s or %s%s", strings.Join(all[:last], ", "), all[last], strings.TrimSuffix(", not "+got, ", not "))
}

func (s *shape) readDuration(n node, to reflect.Value, path string) {
	f := forms["duration"]
	text, is := as[string](s, n, path, strings.TrimPrefix(f.must, "must be "))
	d, err := time.ParseDuration(text)
	switch {
	case !is:
	case err != nil || !f.fits(text):
		s.add(path, "%s", f.must)
	default:
		to.SetInt(int64(d))
	}
}

func (s *shape) readNumber(n node, to reflect.Value, path string) {
	text, is := as[json.Number](s, n, path, "a whole number")
	i, ok := whole(string(text))
	switch {
	case !is:
	case !ok || to.OverflowInt(i):
		s.add(path, "must be a whole number of at most 18 digits, not %s", text[:min(len(text), 30)])
	default:
		to.SetInt(i)
	}
}

// whole returns the whole number that JSON text is, which 1.0 and 1e3 are too: a schema does not
// see how a number is written. A text with more digits than any number of ours is none.
func whole(text string) (int64, bool) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, true
	}
	_, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if len(text) > 40 || len(exponent) > 3 { // a power of a billion takes all memory
		return 0, false
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok || !r.IsInt() || !r.Num().IsInt64() {
		return 0, false
	}
	return r.Num().Int64(), true
}
