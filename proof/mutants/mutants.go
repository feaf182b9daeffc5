// SPDX-License-Identifier: Apache-2.0

// Package mutants checks that tests check: it breaks a package on purpose, one
// small change at a time, and fails if neither its tests notice, nor the tests of other packages that are asked too.
//
// A test suite can run every line and still not care. The changes are written by
// hand, one for each step that security hangs on, so that a test that is lost or
// weakened is missed by name. They are substitutions within declarations, in JSON lists
// of [Mutant] under testdata/mutants, and so cannot rot in silence: a change that no
// longer finds its place fails. A declaration may move to another file.
//
// TestMutants of this package tries them all. The lab imports the package too, to build servers with a defence broken.
package mutants

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// A Mutant is one way to break a package.
type Mutant struct {
	Name string `json:"name"` // of the subtest
	In   string `json:"in"`   // "name", "type.method", or the same of "a/package/below"; or a file that is no Go
	Old  string `json:"old"`  // text that occurs in that exactly once, but for white space
	New  string `json:"new"`  // text to put in its place
	Why  string `json:"why"`  // what would be lost
}

// Load reads the mutants in the files that match a pattern. It is an error if
// there are none, or if a field of one is missing or unknown.
func Load(pattern string) ([]Mutant, error) {
	files, _ := filepath.Glob(pattern)
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
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, m := range specs {
			if m.Name == "" || m.In == "" || m.Old == "" || m.Why == "" || m.Old == m.New {
				return nil, fmt.Errorf("%s: a mutant needs name, in, old, why, and a new that is not old: %s", file, m.Name)
			}
			if slices.ContainsFunc(all, func(other Mutant) bool { return other.Name == m.Name }) {
				return nil, fmt.Errorf("%s: two mutants have the name %s", file, m.Name)
			}
			all = append(all, m)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no mutants", pattern)
	}
	return all, nil
}
