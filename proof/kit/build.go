// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"encoding/json"
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

// Build builds the program of a directory, with its main.go changed as by Replace. It returns the path of
// the program.
func Build(t testing.TB, dir string, oldnew ...string) string {
	t.Helper()
	must := func(err error, said string) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
	}
	source, err := filepath.Abs(filepath.Join(dir, "main.go"))
	must(err, dir)
	content, err := os.ReadFile(source)
	must(err, dir)
	made := t.TempDir()
	changed, overlay, program := filepath.Join(made, "main.go"), filepath.Join(made, "overlay.json"), filepath.Join(made, "program")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{source: changed}})
	must(err, dir)
	must(os.WriteFile(changed, []byte(Replace(t, string(content), oldnew...)), 0o600), dir)
	must(os.WriteFile(overlay, list, 0o600), dir)
	build := exec.Command("go", "build", "-overlay", overlay, "-o", program, ".")
	build.Dir, build.Env = filepath.Dir(source), append(os.Environ(), "GOWORK=off")
	out, err := build.CombinedOutput()
	must(err, string(out))
	return program
}
