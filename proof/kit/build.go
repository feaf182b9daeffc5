// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Replace returns a text changed by pairs of an old text, which must stand there once, and a new one.
func Replace(t testing.TB, text string, oldnew ...string) string {
	t.Helper()
	for i := 0; i < len(oldnew); i += 2 {
		if n := strings.Count(text, oldnew[i]); n != 1 {
			t.Fatalf("%q stands there %d times", oldnew[i], n)
		}
		text = strings.Replace(text, oldnew[i], oldnew[i+1], 1)
	}
	return text
}

// Overlay writes other texts of files, which may be new, into dir, and what -overlay of the go command wants to know of
// them. The files themselves are not touched.
func Overlay(texts map[string][]byte, dir string) (overlay string, err error) {
	changed := map[string]string{}
	for file, text := range texts {
		original, err := filepath.Abs(file)
		changed[original] = filepath.Join(dir, fmt.Sprintf("changed%d%s", len(changed), filepath.Ext(file)))
		if err = errors.Join(err, os.WriteFile(changed[original], text, 0o600)); err != nil {
			return "", err
		}
	}
	list, _ := json.Marshal(map[string]any{"Replace": changed})
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o600)
}

// Build builds the program of a directory, with its main.go changed as by Replace. It returns the path of
// the program.
func Build(t testing.TB, dir string, oldnew ...string) string {
	t.Helper()
	source, made := filepath.Join(dir, "main.go"), t.TempDir()
	text := Replace(t, string(Must(os.ReadFile(source))(t)), oldnew...)
	program := filepath.Join(made, "program")
	build := exec.Command("go", "build", "-overlay", Must(Overlay(map[string][]byte{source: []byte(text)}, made))(t), "-o", program, ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}
