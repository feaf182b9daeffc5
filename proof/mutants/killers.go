// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

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
