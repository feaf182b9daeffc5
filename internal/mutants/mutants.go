// SPDX-License-Identifier: Apache-2.0

// Package mutants checks that tests check: it breaks a package on purpose, one
// small change at a time, and fails if the package's tests do not notice.
//
// A test suite can run every line and still not care. The changes are written by
// hand, one for each step that security hangs on, so that a test that is lost or
// weakened is missed by name. They are exact substitutions in files under
// testdata/mutants, JSON lists of [Mutant], and so cannot rot in silence: a
// change that no longer finds its place fails.
//
//	func TestMutants(t *testing.T) {
//		mutants.Run(t, ".", mutants.Load(t, "testdata/mutants/*.json"))
//	}
//
// It imports the standard library only, and is imported by tests only.
package mutants

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Mutant is one way to break a package.
type Mutant struct {
	Name string `json:"name"` // of the subtest
	File string `json:"file"` // which to change, relative to the package
	Old  string `json:"old"`  // text that occurs in it exactly once
	New  string `json:"new"`  // text to put in its place
	Why  string `json:"why"`  // what would be lost
}

// An outcome is how a mutant fared.
type outcome string

const (
	killed    outcome = "a test failed"
	survived  outcome = "all tests passed"
	misplaced outcome = "its old text does not occur exactly once: the line has changed, so change the mutant in testdata/mutants too"
	broken    outcome = "does not compile: a mutant must be killed by a test, not by the compiler"
	unusable  outcome = "could not be tried"
)

// A result is an outcome with what there is to say about it.
type result struct {
	outcome outcome
	by      string // the first test that failed
	output  string
	took    time.Duration // by the tests, if they passed
}

// Load reads the mutants in the files that match a pattern. It fails the test if
// there are none, or if a field of one is missing or unknown.
func Load(t *testing.T, pattern string) []Mutant {
	t.Helper()
	specs, err := load(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return specs
}

func load(pattern string) ([]Mutant, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	var all []Mutant
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var specs []Mutant
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&specs); err != nil {
			return nil, &fault{file, err.Error()}
		}
		for _, m := range specs {
			if m.Name == "" || m.File == "" || m.Old == "" || m.Why == "" || m.Old == m.New {
				return nil, &fault{file, "a mutant needs name, file, old, why, and a new that is not old: " + m.Name}
			}
			for _, other := range all {
				if other.Name == m.Name {
					return nil, &fault{file, "two mutants have the name " + m.Name}
				}
			}
			all = append(all, m)
		}
	}
	if len(all) == 0 {
		return nil, &fault{pattern, "no mutants"}
	}
	return all, nil
}

type fault struct{ file, problem string }

func (f *fault) Error() string { return f.file + ": " + f.problem }

// mutated returns the text of a file with the change in it, or says why it has no
// place there.
func mutated(file string, m *Mutant) ([]byte, result) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, result{outcome: unusable, output: err.Error()}
	}
	if n := bytes.Count(text, []byte(m.Old)); n != 1 {
		return nil, result{outcome: misplaced, output: strconv.Itoa(n) + " times in " + m.File + ": " + m.Old}
	}
	before, after, _ := bytes.Cut(text, []byte(m.Old))
	return slices.Concat(before, []byte(m.New), padded(after, m, bytes.Count(before, []byte("`")))), result{}
}

// padded puts blank lines in the place of those that a change takes away. The lines
// below keep their numbers, which are part of what a package exports: else the go
// command would have to build the tests outside of it anew (see recipe).
func padded(after []byte, m *Mutant, quotes int) []byte {
	missing := strings.Count(m.Old, "\n") - strings.Count(m.New, "\n")
	line := 0 // where the next begins
	if m.New != "" && !strings.HasSuffix(m.New, "\n") || m.New == "" && !strings.HasSuffix(m.Old, "\n") {
		line = bytes.IndexByte(after, '\n') + 1
	}
	quotes += strings.Count(m.New, "`") + bytes.Count(after[:line], []byte("`"))
	if missing <= 0 || quotes%2 > 0 { // within a text of several lines
		return after
	}
	return slices.Concat(after[:line], bytes.Repeat([]byte("\n"), missing), after[line:])
}
