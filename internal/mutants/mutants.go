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

// running is set for the tests that judge a mutant: they must not start others.
const running = "TALLYSTICK_MUTANT"

// parallel is how many mutants are tried at once. Each is a compiler and a
// linker run, and then a test process that may use every core.
const parallel = 2

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

// Run tries every mutant of a package, each as a subtest, which fails if the
// tests of the package pass, and also if the mutant does not compile: it is the
// tests that must notice, not the compiler.
//
// pkg is the package to break and to test, relative to the caller's directory:
// "." for the caller's own. Its tests run with -short: a test that is to kill
// mutants must not skip itself then. Under -short itself Run skips, and says so.
func Run(t *testing.T, pkg string, specs []Mutant) {
	t.Helper()
	if os.Getenv(running) != "" {
		t.Skip("this is a mutant's own test run")
	}
	if testing.Short() {
		t.Skip("-short: the mutation check compiles the package once for each mutant")
	}
	// The package as it is must pass, or its failures would say nothing.
	unbroken := try(pkg, t.TempDir(), nil, 30*time.Minute)
	if unbroken.outcome != survived {
		t.Fatalf("the tests of %s do not pass without any mutant: %s\n%s", pkg, unbroken.outcome, unbroken.output)
	}
	slots := make(chan struct{}, parallel)
	for i := range specs {
		t.Run(specs[i].Name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			switch r := try(pkg, t.TempDir(), &specs[i], patience(unbroken.took)); r.outcome {
			case killed:
				t.Logf("killed by %s", r.by)
			case survived:
				t.Errorf("no test of %s notices this change of %s: %s\n- %s\n+ %s",
					pkg, specs[i].File, specs[i].Why, specs[i].Old, specs[i].New)
			default:
				t.Errorf("%s\n%s", r.outcome, r.output)
			}
		})
	}
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

// A fault is what is wrong with a list of mutants.
type fault struct{ file, problem string }

func (f *fault) Error() string { return f.file + ": " + f.problem }
