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

// running is set for the tests that judge a mutant: they must not start others.
const running = "TALLYSTICK_MUTANT"

// A bench is where the mutants of one package are tried.
type bench struct {
	pkg    string
	tested []string // whose tests are asked, in this order: directories relative to pkg
	dir    string   // of the test binaries without any mutant
	known  sync.Map
}

func newBench(pkg, dir string, others ...string) (*bench, error) {
	b := &bench{pkg: pkg, tested: append([]string{"."}, others...), dir: dir}
	for _, tested := range b.tested {
		if r := b.build(dir, b.whole(tested), tested, nil); r.outcome != "" {
			return nil, fmt.Errorf("%s: %s: %s", filepath.Join(pkg, tested), r.outcome, r.output)
		}
	}
	return b, nil
}

// whole is the file of a package's test binary without any mutant.
func (b *bench) whole(tested string) string {
	return filepath.Join(b.dir, fmt.Sprintf("whole%d.test", slices.Index(b.tested, tested)))
}

// usual is how a test fares without any mutant. A test
// that fails then says nothing about mutants, and how long it took says how long it may
// take with one. All tests together take long: they are run only where the one that
// should notice is not known, or does not.
func (b *bench) usual(asked test) result {
	known, _ := b.known.LoadOrStore(asked, sync.OnceValue(func() result { return b.run(b.whole(asked.pkg), asked, 30*time.Minute) }))
	return known.(func() result)()
}

// try builds the tests with a mutant in the package, or none, and runs them, one package after the other.
// Build and run are apart, so that a compiler's complaint is not taken for a test's. If
// a test is named that should notice, it is asked first, and the others only if it does not.
func (b *bench) try(dir string, m *Mutant, first test) result {
	var tests []test
	if first.name != "" && slices.Contains(b.tested, first.pkg) {
		tests = append(tests, first)
	}
	for _, tested := range b.tested {
		tests = append(tests, test{pkg: tested})
	}
	binaries := map[string]string{} // by what they test
	var r result
	for _, asked := range tests {
		binary, built := binaries[asked.pkg]
		if !built {
			binary = filepath.Join(dir, fmt.Sprintf("mutant%d.test", len(binaries)))
			if r = b.build(dir, binary, asked.pkg, m); r.outcome != "" {
				return r
			}
			binaries[asked.pkg] = binary
		}
		usual := b.usual(asked) // a test that is no more runs nothing, and so passes
		if usual.outcome != survived {
			return result{outcome: unusable, output: "the tests do not pass without any mutant:\n" + usual.output}
		}
		if r = b.run(binary, asked, patience(usual.took)); r.outcome != survived {
			return r
		}
	}
	return r
}

// build makes the test binary of a package, or says why not.
func (b *bench) build(dir, binary, tested string, m *Mutant) result {
	// Debugging information would be a fifth of the work.
	args := []string{"test", "-vet=off", "-gcflags=-dwarf=false", "-ldflags=-s -w", "-c", "-o", binary}
	if m != nil {
		file, text, err := m.Broken(b.pkg)
		if err != nil {
			return result{outcome: misplaced, output: err.Error()}
		}
		overlay, err := kit.Overlay(filepath.Join(b.pkg, file), text, dir)
		if err != nil {
			return result{outcome: unusable, output: err.Error()}
		}
		args = append(args, "-overlay="+overlay)
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Dir = filepath.Join(b.pkg, tested)
	if output, err := cmd.CombinedOutput(); err != nil {
		return result{outcome: broken, output: string(output)}
	}
	return result{}
}

// run runs a test of a binary. It knows no cache: -count=1 is implied.
func (b *bench) run(binary string, asked test, limit time.Duration) result {
	args := []string{"-test.short", "-test.failfast", "-test.timeout=" + limit.String()}
	if asked.name != "" {
		args = append(args, "-test.run=^"+regexp.QuoteMeta(asked.name)+"$")
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = filepath.Join(b.pkg, asked.pkg)
	cmd.Env = append(os.Environ(), running+"=1")
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
