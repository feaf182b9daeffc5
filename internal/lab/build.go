// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A breakage is how one defence is taken out: as the mutants of the packages it is an exact
// substitution, and so cannot rot in silence.
type breakage struct {
	Name string `json:"name"` // as -without takes it
	File string `json:"file"` // relative to the root of the repository
	Old  string `json:"old"`  // text that occurs in it exactly once
	New  string `json:"new"`
	Why  string `json:"why"` // what is lost
	Row  string `json:"row"` // a row that must notice, of the lab or of what a fleet is judged by
}

//go:embed without.json
var files embed.FS

// breakages returns all of them.
func breakages() ([]breakage, error) {
	text, err := files.ReadFile("without.json")
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var all []breakage
	return all, d.Decode(&all)
}

// breakageNamed returns the one of a name; none for no name.
func breakageNamed(name string) (*breakage, error) {
	if name == "" {
		return nil, nil
	}
	all, err := breakages()
	if err != nil {
		return nil, err
	}
	names := make([]string, len(all))
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
		names[i] = all[i].Name
	}
	return nil, fmt.Errorf("-without %s: there are %s", name, strings.Join(names, ", "))
}

// overlay writes the broken file into dir, and what -overlay of the go command wants to know
// of it. No file of the repository is touched.
func (b *breakage) overlay(root, dir string) (string, error) {
	original := filepath.Join(root, filepath.FromSlash(b.File))
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	if n := bytes.Count(text, []byte(b.Old)); n != 1 {
		return "", fmt.Errorf("-without %s: its place is %d times in %s, not once: %s", b.Name, n, b.File, b.Old)
	}
	broken := filepath.Join(dir, "broken.go")
	if err := os.WriteFile(broken, bytes.Replace(text, []byte(b.Old), []byte(b.New), 1), 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{original: broken}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, list, 0o600)
}

// module is this module, whose folder the go command knows.
const module = "github.com/tallystick/tallystick/internal/lab"

// build builds the server into dir, with one defence broken or whole, and returns the program.
func build(ctx context.Context, dir string, without *breakage, flags ...string) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("where are the sources? run the lab within the repository: %w", err)
	}
	home := strings.TrimSpace(string(out))
	program := filepath.Join(dir, "server")
	args := append([]string{"build", "-o", program}, flags...)
	if without != nil {
		file, err := without.overlay(filepath.Join(home, "..", ".."), dir)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay="+file)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./server")...)
	cmd.Dir = home
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOWORK=") }), "GOWORK=off", "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return program, nil
}
