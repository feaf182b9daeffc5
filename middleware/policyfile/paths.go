// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/tallystick/tallystick/middleware"
)

// middleware.New tells problems in the words of Go. These functions tell them in the
// file's words.

// pathOf returns the path in a policy for a field of a Config: tiers.pro.limits[1].quota for
// Tiers["pro"][1].Quota.
func pathOf(field string) string {
	path := ""
	if _, rare := reflect.TypeFor[middleware.Advanced]().FieldByName(field); rare { // promoted to the Config
		path = "advanced"
	}
	ofTier := false
	for _, step := range steps.FindAllString(field, -1) {
		name, err := strconv.Unquote(strings.Trim(step, "[]"))
		switch {
		case err == nil:
			ofTier = path == "tiers"
			path = join(path, name)
			continue
		case step[0] != '[':
			path = join(path, strings.ToLower(step[:1])+step[1:])
		case ofTier:
			path += ".limits" + step
		default:
			path += step
		}
		ofTier = false
	}
	return path
}

var (
	steps   = regexp.MustCompile(`\[("(\\.|[^"\\])*"|[0-9]+)\]|\w+`)
	goName  = regexp.MustCompile(`"[^"]*"|\b(Config\.)?[A-Za-z][A-Za-z0-9-]*`) // what is quoted is the owner's
	leaveIt = regexp.MustCompile(`leave (it|[A-Z][A-Za-z.]*) (0|empty)`)
)

// spelled returns a problem with the names of fields and constants as a file spells them.
func spelled(problem string) string {
	names := map[string]string{}
	collect(reflect.TypeFor[policyKeys](), names)

	problem = leaveIt.ReplaceAllString(problem, "leave $1 out")
	problem = strings.NewReplacer("left nil", "left out", ", or 0 for", ", or left out for").Replace(problem)
	return goName.ReplaceAllStringFunc(problem, func(name string) string {
		if text, ok := names[strings.TrimPrefix(name, "Config.")]; ok {
			return text
		}
		return name
	})
}

// collect puts the names of fields and constants below t into names.
func collect(t reflect.Type, names map[string]string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		collect(t.Elem(), names)
	case reflect.Struct:
		for f := range t.Fields() {
			if key := f.Tag.Get("json"); key != "" {
				names[f.Name] = key
				collect(f.Type, names)
			}
		}
	}
	for _, w := range words[t] {
		names[w.constant] = strconv.Quote(w.text)
	}
}
