// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

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
