// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// parallel is how many mutants are tried at once. Each is a compiler and a
// linker run, and then a test process that may use every core.
const parallel = 2

// attempt fails where a mutant of a package does not find its place. Asked for by name, as
// in
//
//	go test -run 'TestMutants/^token$' ./proof/mutants
//	go test -run 'TestMutants/^internal.token$/name_of_one' ./proof/mutants
//
// it also tries every mutant, each as a subtest, which fails if the tests of the
// package pass, and also if the mutant does not compile: it is the tests that must
// notice, not the compiler. Not asked, it skips that and says so: it compiles the
// package once for each mutant, and a plain "go test ./..." should not judge
// tests. Nor does it with -short, whatever is asked for.
//
// pkg is the package to break and to test, relative to the caller's directory. others are packages that use it, relative to pkg: their tests are
// asked where the tests of pkg notice nothing, or first where one of them noticed before.
// Tests run with -short: a test that is to kill mutants must not skip itself then.
func attempt(t *testing.T, pkg string, specs []Mutant, others ...string) {
	t.Helper()
	if os.Getenv(running) != "" {
		t.Skip("this is a mutant's own test run")
	}
	placed := len(specs)
	for i := range specs {
		if _, _, err := specs[i].Broken(pkg); err != nil {
			placed--
			t.Errorf("%s: %s: %v", specs[i].Name, misplaced, err)
		}
	}
	if testing.Short() || !asked(flag.Lookup("test.run").Value.String()) {
		t.Skipf("%d mutants found their places, and were not tried: make mutants, or go test -run TestMutants", placed)
	}
	p, err := planned(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	run(t, pkg, specs, p, others...)
}

// asked says whether the -run of "go test" names the mutants.
func asked(pattern string) bool { return strings.Contains(pattern, "Mutants") }

// A plan is which mutants are tried, as far as they are not picked by name.
type plan struct {
	time  time.Duration // after which no further one is begun; 0 for no end
	since string        // the commit that knows the others, or none
}

// planned reads the plan that .ci/mutants makes.
func planned(getenv func(string) string) (plan, error) {
	text := cmp.Or(getenv("TALLYSTICK_MUTANTS_TIME"), "0")
	d, err := time.ParseDuration(text)
	if err != nil {
		return plan{}, fmt.Errorf("TALLYSTICK_MUTANTS_TIME: %w", err)
	}
	return plan{d, getenv("TALLYSTICK_MUTANTS_SINCE")}, nil
}

// begins says whether the n-th mutant is begun after this time. The first is, always:
// a run that tries nothing finds nothing.
func (p plan) begins(n int64, spent time.Duration) bool {
	return n == 1 || p.time == 0 || spent <= p.time
}

// order returns the mutants in the plan's order: each run with a short time tries others.
func (p plan) order(specs []Mutant) []Mutant {
	specs = slices.Clone(specs)
	if p.time != 0 {
		rand.Shuffle(len(specs), func(i, j int) { specs[i], specs[j] = specs[j], specs[i] })
	}
	return specs
}

func run(t *testing.T, pkg string, specs []Mutant, p plan, others ...string) {
	t.Helper()
	began := time.Now()
	killers, all := loadKillers(t, pkg), specs
	if p.since != "" {
		var err error
		if specs, err = since(p.since, pkg, specs, killers.of); err != nil {
			t.Fatal(err)
		}
	}
	if len(specs) == 0 {
		fmt.Println("mutants: tried 0 of 0")
		return
	}
	b, err := newBench(pkg, t.TempDir(), specs, others...)
	if err != nil {
		t.Fatal(err)
	}
	var begun, tried atomic.Int64
	t.Cleanup(func() { // after all subtests
		fmt.Printf("mutants: tried %d of %d\n", tried.Load(), len(specs))
		killers.save(t, all)
	})
	slots := make(chan struct{}, parallel)
	for _, m := range p.order(specs) {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			if !p.begins(begun.Add(1), time.Since(began)) {
				t.Skip("not tried: the time was up")
			}
			tried.Add(1)
			switch r := b.try(t.TempDir(), &m, killers.of(m.Name)); r.outcome {
			case killed:
				killers.note(m.Name, r.by)
				t.Logf("killed by %s", r.by)
			case survived:
				t.Errorf("no test of %s notices this change of %s: %s\n- %s\n+ %s", strings.Join(b.tested, ", "), m.In, m.Why, m.Old, m.New)
			default:
				t.Errorf("%s\n%s", r.outcome, r.output)
			}
		})
	}
}

// Killers are the tests that noticed the mutants of a package when it was last
// written down, by the names of the mutants. They are asked first, which saves most
// of the time that tests take. A test that is gone, or notices no longer, is no
// fault: then all tests are asked. A test of another package stands there with the directory of that,
// relative to the package: "../proof/bounds.TestX". The file is made by
//
//	TALLYSTICK_MUTANTS_KILLERS=write make mutants
type killers struct {
	file string

	mu sync.Mutex
	by map[string]string
}

func loadKillers(t *testing.T, pkg string) *killers {
	t.Helper()
	k := &killers{file: filepath.Join(pkg, "testdata", "killers.json"), by: map[string]string{}}
	if text, err := os.ReadFile(k.file); err == nil { // else there are none yet
		if err := json.Unmarshal(text, &k.by); err != nil {
			t.Fatalf("%s: %v", k.file, err)
		}
	}
	return k
}

var aTest = regexp.MustCompile(`^(Test|Fuzz|Example)\w*$`)

func (k *killers) of(mutant string) test {
	k.mu.Lock()
	defer k.mu.Unlock()
	return testOf(k.by[mutant])
}

// note remembers a test, without the part of it that noticed: parts of tests run
// where the whole is named. A panic names no test.
func (k *killers) note(mutant string, by test) {
	by.name, _, _ = strings.Cut(by.name, "/")
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.by, mutant)
	if aTest.MatchString(by.name) {
		k.by[mutant] = by.String()
	}
}

// save writes the file where that is asked for, without mutants that are no more.
func (k *killers) save(t *testing.T, specs []Mutant) {
	if os.Getenv("TALLYSTICK_MUTANTS_KILLERS") != "write" {
		return
	}
	maps.DeleteFunc(k.by, func(name, _ string) bool {
		return !slices.ContainsFunc(specs, func(m Mutant) bool { return m.Name == name })
	})
	text, _ := json.MarshalIndent(k.by, "", "\t")
	if err := os.WriteFile(k.file, append(text, '\n'), 0o644); err != nil {
		t.Error(err)
	}
}

// since returns the mutants that a commit does not know as they are now: the declaration
// that they break has changed, or the file of the test that kills them, or they have.
func since(commit, pkg string, specs []Mutant, killer func(string) test) ([]Mutant, error) {
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir = pkg
		out, err := cmd.Output()
		return string(out), err
	}
	within, err := git("rev-parse", "--show-prefix") // of the repository
	changed, err2 := git("diff", "--name-only", "--no-renames", commit)
	added, err3 := git("ls-files", "--others", "--exclude-standard", "--full-name", ":/")
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, fmt.Errorf("what has changed since %s: git says: %w", commit, err)
	}
	files := strings.Fields(changed + added)
	for i, file := range files {
		files[i], _ = filepath.Rel(filepath.Clean(strings.TrimSpace(within)), file)
	}
	known, tests := map[string]bool{}, map[test]bool{} // declarations, and tests
	var listed []Mutant
	for _, file := range files {
		was, _ := git("show", commit+":./"+file) // or nothing: the file is new
		now, _ := os.ReadFile(filepath.Join(pkg, file))
		switch {
		case strings.HasSuffix(file, "_test.go"):
			for name := range declared(file, now) {
				tests[test{path.Dir(file), name}] = true
			}
		case strings.HasSuffix(file, ".go"):
			dir, _ := path.Split(file)
			for name, all := range declared(file, []byte(was)) {
				for _, p := range all {
					known[p.means(dir+name)] = true
				}
			}
		case path.Base(path.Dir(file)) == "mutants":
			var then, here []Mutant
			_, _ = json.Unmarshal([]byte(was), &then), json.Unmarshal(now, &here)
			listed = append(listed, slices.DeleteFunc(here, func(m Mutant) bool { return slices.Contains(then, m) })...)
		}
	}
	return slices.DeleteFunc(slices.Clone(specs), func(m Mutant) bool {
		changed := func(p place) bool { return slices.Contains(files, p.file) && !known[p.means(m.In)] }
		return !slices.Contains(listed, m) && !tests[killer(m.Name)] && !slices.ContainsFunc(places(pkg, m.In), changed)
	}), nil
}

// means returns what is declared at a place, however it is indented.
func (p place) means(name string) string {
	return name + ": " + strings.Join(strings.Fields(string(p.text[p.from:p.to])), " ")
}
