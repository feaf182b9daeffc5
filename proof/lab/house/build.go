// SPDX-License-Identifier: Apache-2.0

package house

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/mutants"
)

// A Breakage is how one defence is taken out, as the mutants of the packages are made: by a declaration, and text in it.
type Breakage struct {
	mutants.Mutant
	Row string `json:"row"` // a row that must notice
}

//go:embed without.json
var without []byte

// Breakages returns all of them.
func Breakages() (all []Breakage, err error) {
	d := json.NewDecoder(bytes.NewReader(without))
	d.DisallowUnknownFields()
	return all, d.Decode(&all)
}

// Named returns the one of a name; none for no name.
func Named(name string) (*Breakage, error) {
	if name == "" {
		return nil, nil
	}
	all, err := Breakages()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, b := range all {
		if b.Name == name {
			return &b, nil
		}
		names = append(names, b.Name)
	}
	return nil, fmt.Errorf("-without %s: there are %s", name, strings.Join(names, ", "))
}

// module is this module, whose folder the go command knows.
const module = "github.com/tallystick/tallystick/proof/lab"

// Build builds the lab into dir, with one defence broken or whole, and returns the program: its verb "serve" is an instance.
func Build(ctx context.Context, dir string, without *Breakage, race bool) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("where are the sources? run the lab within the repository: %w", err)
	}
	home := strings.TrimSpace(string(out))
	made := filepath.Join(dir, "lab")
	args := []string{"build", "-o", made, "-race=" + strconv.FormatBool(race)}
	if without != nil {
		root := filepath.Join(home, "..", "..")
		file, text, err := without.Broken(root)
		if err != nil {
			return "", fmt.Errorf("-without %s: its place is %w", without.Name, err)
		}
		overlay, err := kit.Overlay(map[string][]byte{filepath.Join(root, file): text}, dir)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay="+overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return made, nil
}
