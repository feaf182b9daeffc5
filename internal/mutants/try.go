package mutants

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// An outcome is how a mutant fared.
type outcome string

const (
	killed    outcome = "a test failed"
	survived  outcome = "all tests passed"
	misplaced outcome = "the old text does not occur exactly once"
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

// patience is how long the tests of a mutant may take, given how long they took
// without it. A mutant that makes a loop endless is killed by that. A busy machine
// must not be taken for one: that would be a kill that no test has made.
func patience(unbroken time.Duration) time.Duration { return max(time.Minute, 30*unbroken) }

// try builds the tests of a package with a mutant in it, or none, and runs them
// for at most the given time. The change is an overlay: no file of the package is
// touched. Build and run are apart, so that a compiler's complaint is not taken for
// a test's.
func try(pkg, dir string, m *Mutant, limit time.Duration) result {
	overlay, r := write(pkg, dir, m)
	if r.outcome != "" {
		return r
	}
	// Debugging information would be a fifth of the work.
	binary := filepath.Join(dir, "mutant.test")
	build := exec.Command("go", "test", "-overlay="+overlay, "-vet=off",
		"-gcflags=-dwarf=false", "-ldflags=-s -w", "-c", "-o", binary, pkg)
	if output, err := build.CombinedOutput(); err != nil {
		return result{outcome: broken, output: string(output)}
	}
	// A test binary knows no cache: -count=1 is implied.
	cmd := exec.Command(binary, "-test.short", "-test.failfast", "-test.timeout="+limit.String())
	cmd.Dir = pkg
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
	return result{outcome: killed, by: first(output), output: string(output)}
}

// write writes the changed file and the overlay that puts it in place.
func write(pkg, dir string, m *Mutant) (overlay string, r result) {
	replace := map[string]string{}
	if m != nil {
		original, err := filepath.Abs(filepath.Join(pkg, m.File))
		if err != nil {
			return "", result{outcome: unusable, output: err.Error()}
		}
		text, err := os.ReadFile(original)
		if err != nil {
			return "", result{outcome: unusable, output: err.Error()}
		}
		if n := bytes.Count(text, []byte(m.Old)); n != 1 {
			return "", result{outcome: misplaced, output: strconv.Itoa(n) + " times in " + m.File + ": " + m.Old}
		}
		changed := filepath.Join(dir, filepath.Base(m.File))
		text = bytes.Replace(text, []byte(m.Old), []byte(m.New), 1)
		if err := os.WriteFile(changed, text, 0o600); err != nil {
			return "", result{outcome: unusable, output: err.Error()}
		}
		replace[original] = changed
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", result{outcome: unusable, output: err.Error()}
	}
	overlay = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return "", result{outcome: unusable, output: err.Error()}
	}
	return overlay, r
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
