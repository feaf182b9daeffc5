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
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A Mutant is one way to break a package.
type Mutant struct {
	Name string `json:"name"` // of the subtest
	File string `json:"file"` // which to change, relative to the package
	Old  string `json:"old"`  // text that occurs in it exactly once
	New  string `json:"new"`  // text to put in its place
	Why  string `json:"why"`  // what would be lost
}

// running is set for the tests that judge a mutant: they must not start others.
const running = "TALLYSTICK_MUTANT"

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

// Run checks that every mutant of a package finds its place. Asked for by name, as
// in
//
//	go test -run TestMutants ./token
//	go test -run 'TestMutants/name_of_one' ./token
//
// it also tries every mutant, each as a subtest, which fails if the tests of the
// package pass, and also if the mutant does not compile: it is the tests that must
// notice, not the compiler. Not asked, it skips that and says so: it compiles the
// package once for each mutant, and nobody's plain "go test ./..." should judge
// tests.
//
// pkg is the package to break and to test, relative to the caller's directory:
// "." for the caller's own. Its tests run with -short: a test that is to kill
// mutants must not skip itself then.
func Run(t *testing.T, pkg string, specs []Mutant) {
	t.Helper()
	if os.Getenv(running) != "" {
		t.Skip("this is a mutant's own test run")
	}
	for i := range specs {
		if _, r := mutated(filepath.Join(pkg, specs[i].File), &specs[i]); r.outcome != "" {
			t.Errorf("%s: %s: %s", specs[i].Name, r.outcome, r.output)
		}
	}
	if !asked(flag.Lookup("test.run").Value.String()) {
		t.Skipf("%d mutants found their places, and were not tried: make mutants, or go test -run TestMutants", len(specs))
	}
	p, err := planned(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	run(t, pkg, specs, p)
}

// asked says whether the -run of "go test" names the mutants.
func asked(pattern string) bool { return strings.Contains(pattern, "Mutants") }

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

// A fault is what is wrong with a list of mutants.
type fault struct{ file, problem string }

func (f *fault) Error() string { return f.file + ": " + f.problem }
