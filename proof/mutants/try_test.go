// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tallystick/tallystick/proof/kit"
)

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
	by      test // the first that failed
	output  string
	took    time.Duration // by the tests, if they passed
}

// A test is one test of a package, or all of them if it has no name.
type test struct{ pkg, name string } // pkg: a directory relative to the broken package, "." for that itself

func (t test) String() string {
	if t.pkg == "." {
		return t.name
	}
	return t.pkg + "." + t.name
}

// testOf reads what String writes: a name has no dot. Nothing is no test.
func testOf(text string) test {
	if text == "" {
		return test{}
	}
	if i := strings.LastIndex(text, "."); i >= 0 {
		return test{text[:i], text[i+1:]}
	}
	return test{".", text}
}

// patience is how long the tests of a mutant may take, given how long they took
// without it. A mutant that makes a loop endless is killed by that. A busy machine
// must not be taken for one: that would be a kill that no test has made.
func patience(unbroken time.Duration) time.Duration { return max(time.Minute, 30*unbroken) }

// running is set for the tests that judge a mutant: they must not start others. It is the number of the mutant behind the
// switch, or 0.
const running = "TALLYSTICK_MUTANT"

// A bench is where the mutants of one package are tried.
type bench struct {
	pkg      string
	tested   []string       // whose tests are asked, in this order: directories relative to pkg
	dir      string         // of the test binaries that serve many mutants
	number   map[string]int // of the mutants that one binary has behind a switch, by their names
	switched map[string][]byte
	built    sync.Map
	known    sync.Map
}

// newBench makes the bench for these mutants, or others.
func newBench(pkg, dir string, specs []Mutant, others ...string) (*bench, error) {
	b := &bench{pkg: pkg, tested: append([]string{"."}, others...), dir: dir}
	b.switched, b.number = switched(pkg, specs)
	for _, tested := range b.tested {
		binary := b.whole(tested, len(b.number) > 0)
		if binary.err.outcome == broken && len(b.number) > 0 { // as where a mutant of a function declares a label
			b.number = nil
			binary = b.whole(tested, false)
		}
		if r := binary.err; r.outcome != "" {
			return nil, fmt.Errorf("%s: %s: %s", filepath.Join(pkg, tested), r.outcome, r.output)
		}
	}
	return b, nil
}

// A binary has the tests of a package, or an error.
type binary struct {
	file string
	err  result
}

// whole returns the tests of a package without any mutant, or with all of them behind the switch.
func (b *bench) whole(tested string, withSwitch bool) binary {
	name := fmt.Sprintf("whole%d-%t", slices.Index(b.tested, tested), withSwitch)
	built, _ := b.built.LoadOrStore(name, sync.OnceValue(func() binary {
		dir, texts := filepath.Join(b.dir, name), map[string][]byte(nil)
		if withSwitch {
			texts = b.switched
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			return binary{err: result{outcome: unusable, output: err.Error()}}
		}
		return b.build(dir, tested, texts)
	}))
	return built.(func() binary)()
}

// usual is how a test fares without any mutant. A test
// that fails then says nothing about mutants, and how long it took says how long it may
// take with one. All tests together take long: they are run only where the one that
// should notice is not known, or does not.
func (b *bench) usual(asked test, withSwitch bool) result {
	type key struct {
		test
		withSwitch bool
	}
	known, _ := b.known.LoadOrStore(key{asked, withSwitch}, sync.OnceValue(func() result {
		tests := b.whole(asked.pkg, withSwitch)
		if tests.err.outcome != "" {
			return tests.err
		}
		return b.run(tests.file, asked, 0, 30*time.Minute)
	}))
	return known.(func() result)()
}

// try runs the tests with a mutant in the package, or none, one package after the other. If
// a test is named that should notice, it is asked first, and the others only if it does not. Most mutants are
// in one binary, behind a switch. What cannot be, or has tests that do not bear the switch, such as those that count
// allocations, has binaries of its own: build and run are apart, so that a compiler's complaint is not taken for a test's.
func (b *bench) try(dir string, m *Mutant, first test) result {
	var tests []test
	if first.name != "" && slices.Contains(b.tested, first.pkg) {
		tests = append(tests, first)
	}
	for _, tested := range b.tested {
		tests = append(tests, test{pkg: tested})
	}
	if m != nil && b.number[m.Name] > 0 {
		r := b.ask(tests, b.number[m.Name], func(tested string) binary { return b.whole(tested, true) })
		if r.outcome != unusable {
			return r
		}
	}
	binaries := map[string]binary{} // by what they test
	return b.ask(tests, 0, func(tested string) binary {
		if _, built := binaries[tested]; !built {
			binaries[tested] = b.broken(filepath.Join(dir, fmt.Sprint(len(binaries))), tested, m)
		}
		return binaries[tested]
	})
}

// broken builds the tests of a package with one mutant, or none.
func (b *bench) broken(dir, tested string, m *Mutant) binary {
	texts := map[string][]byte{}
	if m != nil {
		file, text, err := m.Broken(b.pkg)
		if err != nil {
			return binary{err: result{outcome: misplaced, output: err.Error()}}
		}
		texts[file] = text
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return binary{err: result{outcome: unusable, output: err.Error()}}
	}
	return b.build(dir, tested, texts)
}

// ask runs tests until one fails.
func (b *bench) ask(tests []test, number int, binaryOf func(tested string) binary) (r result) {
	for _, asked := range tests {
		tests := binaryOf(asked.pkg)
		if tests.err.outcome != "" {
			return tests.err
		}
		usual := b.usual(asked, number > 0) // a test that is no more runs nothing, and so passes
		if usual.outcome != survived {
			return result{outcome: unusable, output: "the tests do not pass without any mutant:\n" + usual.output}
		}
		if r = b.run(tests.file, asked, number, patience(usual.took)); r.outcome != survived {
			return r
		}
	}
	return r
}

// build makes the test binary of a package, with other texts of some files, or says why not.
func (b *bench) build(dir, tested string, texts map[string][]byte) binary {
	file, err := filepath.Abs(filepath.Join(dir, "tests"))
	if err != nil {
		return binary{err: result{outcome: unusable, output: err.Error()}}
	}
	// Debugging information would be a fifth of the work.
	args := []string{"test", "-vet=off", "-gcflags=-dwarf=false", "-ldflags=-s -w", "-c", "-o", file}
	if len(texts) > 0 {
		in := map[string][]byte{}
		for name, text := range texts {
			in[filepath.Join(b.pkg, name)] = text
		}
		overlay, err := kit.Overlay(in, dir)
		if err != nil {
			return binary{err: result{outcome: unusable, output: err.Error()}}
		}
		args = append(args, "-overlay="+overlay)
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Dir = filepath.Join(b.pkg, tested)
	if output, err := cmd.CombinedOutput(); err != nil {
		return binary{err: result{outcome: broken, output: string(output)}}
	}
	return binary{file: file}
}

// run runs a test of a binary, with the mutant of a number, or none. It knows no cache: -count=1 is implied.
func (b *bench) run(binary string, asked test, number int, limit time.Duration) result {
	args := []string{"-test.short", "-test.failfast", "-test.timeout=" + limit.String()}
	if asked.name != "" {
		args = append(args, "-test.run=^"+regexp.QuoteMeta(asked.name)+"$")
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = filepath.Join(b.pkg, asked.pkg)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", running, number))
	began := time.Now()
	output, err := cmd.CombinedOutput()
	took := time.Since(began)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return result{outcome: survived, took: took}
	case !errors.As(err, &exit):
		return result{outcome: unusable, output: err.Error()}
	}
	return result{outcome: killed, by: test{asked.pkg, first(output)}, output: string(output)}
}

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^panic: (.*)|^fatal error: (.*)`)

// first returns what failed first, as far as the output tells.
func first(output []byte) string {
	m := failure.FindSubmatch(output)
	if m == nil {
		return "an exit without a word"
	}
	return string(bytes.Join(m[1:], nil))
}
