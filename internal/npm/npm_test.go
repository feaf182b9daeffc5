// SPDX-License-Identifier: Apache-2.0

package npm_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/clienttest"
	"github.com/tallystick/tallystick/internal/npm"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/pages"
)

const root = "../.."

// run runs a command in a directory and returns what it prints.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		kit.Unable(t, "there is no %s: %v", name, err)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "%s%s", &stdout, &stderr)
	return stdout.String()
}

// packed packs the package, and returns the files of the archive.
func packed(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, npm.Write(filepath.Join(dir, "made"), "1.2.3", root))
	run(t, dir, nil, "npm", "pack", "./made", "--ignore-scripts", "--offline")
	file := kit.Must(os.Open(filepath.Join(dir, "tallystick-tally-1.2.3.tgz")))(t)
	defer file.Close()
	unzipped := kit.Must(gzip.NewReader(file))(t)
	files := map[string]string{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return files
		}
		require.NoError(t, err)
		text := kit.Must(io.ReadAll(archive))(t)
		name, found := strings.CutPrefix(header.Name, "package/")
		require.True(t, found, header.Name)
		files[name] = string(text)
	}
}

// installed returns a directory with the files of testdata/app, where the package is installed
// as npm would: what it packs is what was written, and that test is below.
func installed(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/app")))
	require.NoError(t, npm.Write(filepath.Join(dir, "node_modules", "@tallystick", "tally"), "1.2.3", root))
	return dir
}

// What is in the package is the sources of what a server serves, byte for byte, but for one line.
func TestPackedFilesAreTheSources(t *testing.T) {
	source := func(name string) string {
		folder := "middleware/internal/assets"
		if name == "solver.js" {
			folder = "pow"
		}
		text := kit.Must(os.ReadFile(filepath.Join(root, folder, name)))(t)
		return string(text)
	}
	files := packed(t)
	var names, differ []string
	for name, text := range files {
		names = append(names, name)
		if strings.HasSuffix(name, ".js") || strings.HasSuffix(name, ".css") {
			got, want := strings.Split(text, "\n"), strings.Split(source(name), "\n")
			require.Len(t, got, len(want), name)
			for i := range got {
				if got[i] != want[i] {
					differ = append(differ, name, strings.TrimSpace(want[i]), strings.TrimSpace(got[i]))
				}
			}
		}
	}
	slices.Sort(names)
	languages := kit.Must(filepath.Glob(root + "/middleware/internal/assets/texts-*.js"))(t)
	require.Len(t, languages, 14)
	for i := range languages {
		languages[i] = filepath.Base(languages[i])
	}
	require.Equal(t, slices.Concat([]string{
		"LICENSE", "README.md", "fetch.d.ts", "fetch.js", "package.json", "solver.d.ts", "solver.js", "tally.css", "tally.d.ts", "tally.js",
	}, languages, []string{"texts.js"}), names)
	require.Equal(t, []string{
		"solver.js",
		`const worker = new Worker(import.meta.url, { type: "module", name: NAME });`,
		`const worker = new Worker(new URL("./solver.js", import.meta.url), { type: "module", name: "tallystick-solver" });`,
	}, differ)

	var manifest struct {
		Name, Version, Types string
		Exports              map[string]any
		Dependencies         map[string]string
		Scripts              map[string]string
	}
	require.NoError(t, json.Unmarshal([]byte(files["package.json"]), &manifest))
	require.Equal(t, []string{"@tallystick/tally", "1.2.3"}, []string{manifest.Name, manifest.Version})
	require.Empty(t, manifest.Dependencies)
	require.Empty(t, manifest.Scripts)
	for _, target := range manifest.Exports {
		targets, conditional := target.(map[string]any)
		if !conditional {
			targets = map[string]any{"default": target}
		}
		for _, file := range targets {
			require.Contains(t, files, path.Base(file.(string)))
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	for _, version := range []string{"", "v1.2.3", "1.2", "1.2.3\"", "01.2.3"} {
		require.ErrorContains(t, npm.Write(t.TempDir(), version, root), "is no version")
	}
	require.ErrorContains(t, npm.Write(".", "1.2.3", root), "is not empty")
	require.Error(t, npm.Write(t.TempDir(), "1.2.3", t.TempDir()), "where is the rest?")
}

// tools returns a program that .ci/need has installed.
func tools(t *testing.T, name string) string {
	t.Helper()
	file := kit.Must(filepath.Abs("testdata/tools/node_modules/.bin/" + name))(t)
	if _, err := os.Stat(file); err != nil {
		kit.Unable(t, "there is no %s; .ci/need installs it: %v", name, err)
	}
	if _, err := exec.LookPath("node"); err != nil {
		kit.Unable(t, "%s needs node: %v", name, err)
	}
	return file
}

// The types hold for a program that uses all of them, in both ways in which modules are found. They name
// what the modules have, and the reasons of docs/forms.md, and nothing else.
func TestTypes(t *testing.T) {
	kit.Outside(t)
	tsc, dir := tools(t, "tsc"), installed(t)
	var program strings.Builder
	all := func(name string, keys []string) {
		fmt.Fprintf(&program, "export const %s_: Record<%s, true> = {", name, name)
		for _, key := range keys {
			fmt.Fprintf(&program, " %q: true,", key)
		}
		program.WriteString(" };\n")
	}
	for name, module := range map[string]string{"Tally": "", "Fetch": "/fetch.js", "Solver": "/solver.js"} {
		out := run(t, dir, nil, "node", "--input-type=module", "-e", `
			console.log(JSON.stringify(Object.keys(await import("@tallystick/tally`+module+`"))));`)
		var there []string
		require.NoError(t, json.Unmarshal([]byte(out), &there))
		fmt.Fprintf(&program, "import * as module%s from \"@tallystick/tally%s\";\ntype %s = keyof typeof module%s;\n", name, module, name, name)
		all(name, there)
	}
	_, tables, err := pages.Read(root + "/docs/forms.md")
	require.NoError(t, err)
	var reasons []string
	for _, table := range tables {
		if strings.HasPrefix(table.Head, "| what stands in the way |") {
			for _, row := range table.Rows {
				reasons = append(reasons, strings.Trim(row[1], "`"))
			}
		}
	}
	require.NotEmpty(t, reasons)
	program.WriteString("import type { TallyReason } from \"@tallystick/tally\";\n")
	all("TallyReason", reasons)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "names.ts"), []byte(program.String()), 0o600))
	for i, resolution := range [][]string{{"--module", "nodenext"}, {"--module", "esnext", "--moduleResolution", "bundler"}} {
		if !kit.Whole() && i > 0 {
			break
		}
		run(t, dir, nil, tsc, append(resolution, "--noEmit", "--strict", "--skipLibCheck", "false", "--target", "es2022", "--lib", "es2022,dom,dom.iterable", "--jsx", "preserve", "types.ts", "types.tsx", "names.ts")...)
	}
}

// The part without the element runs without a document, and does its part.
func TestTallyFetchDoesItsPart(t *testing.T) {
	script := kit.Must(clienttest.New(nil))(t)
	server := httptest.NewServer(script)
	defer server.Close()
	run(t, installed(t), []string{"CLIENTTEST_URL=" + server.URL}, "node", "clienttest.mjs")
	report := script.Report()
	require.True(t, report.OK(), "%s", report)
	var returned []string
	for _, c := range report.Cases {
		if c.Verdict == "returned" {
			returned = append(returned, c.Case)
		}
	}
	require.Equal(t, []string{"wait", "unavailable", "proof-unread"}, returned, "it waits for no answer")
}
