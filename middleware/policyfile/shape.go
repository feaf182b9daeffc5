// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"cmp"
	"encoding/json"
	"errors"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-playground/validator/v10"
)

// A shape reads what a schema can say of a file: keys, types, and what each value may be by
// itself. It reports all problems. What values mean together is left to those who use them.
type shape struct {
	*problems
	validate *validator.Validate
}

// readShape reads text into a pointer to one of the types of keys.go. What is wrong is left
// out, and the problems are not nil.
func readShape(name string, text []byte, to any) *problems {
	p := &problems{name: name, lines: map[string]int{}}
	root, err := parse(text)
	if err != nil {
		p.lines[""] = root.line
		p.add("", "%s", err)
		return p
	}
	s := shape{p, validator.New(validator.WithRequiredStructEnabled())}
	s.read(root, reflect.ValueOf(to).Elem(), "", "")
	return p
}

// read reads n, which stands at path and has the rules of a tag.
func (s *shape) read(n node, to reflect.Value, path string, tag reflect.StructTag) {
	s.lines[path] = n.line
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	switch to.Type() {
	case reflect.TypeFor[time.Duration]():
		s.readDuration(n, to, path)
		return
	case reflect.TypeFor[secretKeys]():
		if _, is := n.value.([]member); !is {
			s.add(path, "%s", noSecretsHere)
			return
		}
	}
	if names, ok := words[to.Type()]; ok {
		s.readWord(n, to, path, names)
		return
	}
	switch to.Kind() {
	case reflect.Struct:
		s.readObject(n, to, path)
	case reflect.Map:
		s.readNamed(n, to, path, tag)
	case reflect.Slice:
		s.readList(n, to, path, tag)
	case reflect.String:
		s.readString(n, to, path, tag.Get("form"))
	case reflect.Bool:
		if b, is := n.value.(bool); is {
			to.SetBool(b)
		} else {
			s.add(path, "must be true or false, not %s", n.kind())
		}
	default:
		s.readNumber(n, to, path, tag.Get("validate"))
	}
}

// noSecretsHere says what to do, and nothing of what is there.
const noSecretsHere = `secrets must not stand in this file: put them in an environment variable or a file of their own, and write {"env": "NAME"} or {"file": "PATH"} here`

func (s *shape) readObject(n node, to reflect.Value, path string) {
	members, is := n.value.([]member)
	if !is {
		s.add(path, "must be an object, not %s", n.kind())
		return
	}
	var known []string
	fields := map[string]int{}
	one := false
	for i := range to.NumField() {
		f := to.Type().Field(i)
		if key := f.Tag.Get("json"); key != "" {
			known = append(known, key)
			fields[key] = i
		} else {
			one = f.Tag.Get("file") == "one"
		}
	}
	secret := to.Type() == reflect.TypeFor[secretKeys]()
	for _, m := range members {
		i, ok := fields[m.name]
		at := join(path, m.name)
		switch {
		case !ok && secret: // its name may be one
			s.add(path, "holds what is none of %s; %s", strings.Join(known, ", "), noSecretsHere)
			continue
		case !ok:
			s.lines[at] = m.line
			s.add(at, "is none of %s", strings.Join(known, ", "))
			continue
		case s.twice(at, m):
			continue
		}
		s.read(m.node, to.Field(i), at, to.Type().Field(i).Tag)
	}
	if one && len(members) != 1 {
		s.add(path, "must have one of %s", strings.Join(known, ", "))
	}
	for i := range to.NumField() {
		f := to.Type().Field(i)
		at := join(path, f.Tag.Get("json"))
		if _, there := s.lines[at]; !there && f.Tag.Get("file") == "required" {
			s.add(at, "is required")
		}
	}
}

// twice reports whether there was such a member before. One of the two would be taken in
// silence.
func (s *shape) twice(at string, m member) bool {
	_, twice := s.lines[at]
	if twice {
		s.lines[at] = m.line
		s.add(at, "is there twice")
	}
	return twice
}

// readNamed reads an object whose members may have any name of a form.
func (s *shape) readNamed(n node, to reflect.Value, path string, tag reflect.StructTag) {
	members, is := n.value.([]member)
	if !is {
		s.add(path, "must be an object, not %s", n.kind())
		return
	}
	names := forms[tag.Get("keys")]
	to.Set(reflect.MakeMap(to.Type()))
	for _, m := range members {
		at := join(path, m.name)
		if s.twice(at, m) {
			continue
		}
		if v := reflect.New(to.Type().Elem()).Elem(); names.fits(m.name) {
			s.read(m.node, v, at, each(tag))
			to.SetMapIndex(reflect.ValueOf(m.name), v)
		} else {
			s.lines[at] = m.line
			s.add(at, "its name %s", names.must)
		}
	}
	s.checkLength(len(members), path, tag.Get("validate"))
}

func (s *shape) readList(n node, to reflect.Value, path string, tag reflect.StructTag) {
	elements, is := n.value.([]node)
	if !is {
		s.add(path, "must be a list, not %s", n.kind())
		return
	}
	to.Set(reflect.MakeSlice(to.Type(), len(elements), len(elements)))
	for i, e := range elements {
		s.read(e, to.Index(i), element(path, i), each(tag))
	}
	s.checkLength(len(elements), path, tag.Get("validate"))
}

// each returns the rules of what is in a list, or in an object with any names.
func each(tag reflect.StructTag) reflect.StructTag {
	return reflect.StructTag(`validate:` + strconv.Quote(tag.Get("each")) + ` form:` + strconv.Quote(tag.Get("form")))
}

func (s *shape) checkLength(n int, path, rule string) {
	if s.broken(n, rule) {
		least, most := bounds(rule)
		switch {
		case least == "":
			s.add(path, "must have at most %s, not %d", most, n)
		case most == "":
			s.add(path, "must have at least %s", least)
		default:
			s.add(path, "must have %s to %s, not %d", least, most, n)
		}
	}
}

func (s *shape) readString(n node, to reflect.Value, path, name string) {
	text, is := n.value.(string)
	f, ruled := forms[name]
	switch {
	case !is:
		s.add(path, "%s, not %s", cmp.Or(f.must, "must be a string"), n.kind())
	case ruled && !f.fits(text):
		s.add(path, "%s", f.must) // and not what it is: it may be a secret at the wrong place
	default:
		to.SetString(text)
	}
}

func (s *shape) readWord(n node, to reflect.Value, path string, names []word) {
	text, _ := n.value.(string)
	if i := slices.IndexFunc(names, func(w word) bool { return w.text == text }); i >= 0 {
		to.SetUint(uint64(names[i].value))
		return
	}
	var all []string
	for _, w := range names {
		all = append(all, w.text)
	}
	last := len(all) - 1
	s.add(path, "must be %s or %s", strings.Join(all[:last], ", "), all[last])
}

func (s *shape) readDuration(n node, to reflect.Value, path string) {
	f := forms["duration"]
	text, is := n.value.(string)
	if !is {
		s.add(path, "%s, not %s", f.must, n.kind())
		return
	}
	d, err := time.ParseDuration(text)
	if err != nil || !f.fits(text) {
		s.add(path, "%s", f.must)
		return
	}
	to.SetInt(int64(d))
}

func (s *shape) readNumber(n node, to reflect.Value, path, rule string) {
	least, most := bounds(rule)
	text, is := n.value.(json.Number)
	if !is {
		s.add(path, "must be from %s to %s, not %s", least, most, n.kind())
		return
	}
	i, ok := whole(string(text))
	if !ok || s.broken(i, rule) {
		s.add(path, "must be from %s to %s, not %s", least, most, text[:min(len(text), 30)])
		return
	}
	to.SetInt(i)
}

// whole returns the whole number that JSON text is, which 1.0 and 1e3 are too: a schema does
// not see how a number is written. What has more digits than any number of ours is none.
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

// broken asks the validator. What a rule means for a number is its value; the length of a list
// is a number too.
func (s *shape) broken(n any, rule string) bool {
	if rule == "" {
		return false
	}
	var invalid validator.ValidationErrors
	return errors.As(s.validate.Var(n, rule), &invalid)
}

// bounds returns the least and the most that a rule permits, "" where it does not say.
func bounds(rule string) (least, most string) {
	for part := range strings.SplitSeq(rule, ",") {
		if v, ok := strings.CutPrefix(part, "min="); ok {
			least = v
		} else if v, ok := strings.CutPrefix(part, "max="); ok {
			most = v
		}
	}
	return least, most
}
