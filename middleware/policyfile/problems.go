// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"

	"github.com/tallystick/tallystick/storeless"
)

// problems are all that is wrong with one file.
type problems struct {
	name   string           // of the file
	places map[string]place // of each path that is in the file
	found  []found
	more   int // beyond mostProblems

	unread, shape int // how many of found, from the first, are of what could not be read; and of the whole shape
}

// A place is where a value stands: the nth of the file.
type place struct{ line, nth int }

// mostProblems bounds the report. A large file of another kind has a problem in every
// line, and the report would be many times the file.
const mostProblems = 1000

type found struct {
	place
	path, text string
}

// add reports a problem of the value at path, or of a missing one. It reports the same
// problem once: wrong secrets are wrong for each policy.
func (p *problems) add(path, format string, args ...any) {
	if len(p.found) == mostProblems {
		p.more++
		return
	}
	f := found{p.placeOf(path), path, fmt.Sprintf(format, args...)}
	if !slices.Contains(p.found, f) {
		p.found = append(p.found, f)
	}
}

// below reports whether there is a problem at path, or below it.
func (p *problems) below(path string) bool { return anyBelow(p.found, path) }

// unreadBelow reports whether something at path, or below it, could not be read. What tags forbid is read: middleware sees it,
// and tells of the rest too.
func (p *problems) unreadBelow(path string) bool { return anyBelow(p.found[:p.unread], path) }

func anyBelow(all []found, path string) bool {
	return slices.ContainsFunc(all, func(f found) bool {
		rest, is := strings.CutPrefix(f.path, path)
		return is && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// inShape reports whether the shape has told a problem that middleware puts at path: there, at a parent, at an element, or at
// the limits in it.
func (p *problems) inShape(path string) bool {
	shape := p.found[:p.shape]
	at := func(path string) bool {
		return slices.ContainsFunc(shape, func(f found) bool { return f.path == path })
	}
	return within(path, at) || at(path+".limits") || slices.ContainsFunc(shape, func(f found) bool {
		rest, is := strings.CutPrefix(f.path, path+"[")
		return is && strings.IndexByte(rest, ']') == len(rest)-1
	})
}

// put notes that something stands at path.
func (p *problems) put(path string, line int) { p.places[path] = place{line, len(p.places)} }

// placeOf returns the place of what is at path or, if nothing is there, of what it belongs to.
func (p *problems) placeOf(path string) (of place) {
	within(path, func(at string) (there bool) {
		of, there = p.places[at]
		return there
	})
	return of
}

// within reports whether something is true of path, or of what it belongs to.
func within(path string, is func(path string) bool) bool {
	for !is(path) {
		if path == "" {
			return false
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return true
}

// err returns all problems in the order of the file, each a [storeless.ConfigError].
func (p *problems) err() error {
	slices.SortStableFunc(p.found, func(a, b found) int { return cmp.Compare(a.nth, b.nth) })
	var errs []error
	for _, f := range p.found {
		field := fmt.Sprintf("%s:%d: %s", p.name, f.line, f.path)
		errs = append(errs, &storeless.ConfigError{Field: strings.TrimSuffix(field, ": "), Problem: f.text})
	}
	if p.more > 0 {
		errs = append(errs, &storeless.ConfigError{Field: p.name, Problem: fmt.Sprintf("has %d problems more", p.more)})
	}
	return errors.Join(errs...)
}

// shortestSecret is what middleware.New takes for one.
const shortestSecret = 32

// told returns a text of the file, or nothing if it is as long as a secret: it
// may be one in the wrong place.
func told(text string) string {
	if len(text) >= shortestSecret {
		return ""
	}
	return strconv.Quote(text)
}

// join returns the path of a member. Ambiguous names are quoted. Very long ones are cut, and
// told apart by a checksum.
func join(path, name string) string {
	if len(name) > 64 {
		name = fmt.Sprintf("%s…%08x", strings.ToValidUTF8(name[:64], ""), crc32.ChecksumIEEE([]byte(name)))
	}
	plain := name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && r != '_' && r != '$' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	switch {
	case !plain:
		return path + "[" + strconv.Quote(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

func element(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
