// SPDX-License-Identifier: Apache-2.0

package repository_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// longestReading is the ceiling for the reading list of CONTRIBUTING, in lines: what a newcomer
// reads in a day.
const longestReading = 10_000

// CONTRIBUTING lists the files that a request runs through, in the order in which to read them. A
// file that ran and is not listed, or is listed and did not run, fails.
func TestReadingList(t *testing.T) {
	atRoot(t)
	kit.Outside(t)
	kit.OnlyWhole(t, "builds the library anew, to count what runs")
	ran := filesOfARequest(t)
	listed := readingList(t)
	for _, file := range ran {
		require.Contains(t, listed, file, "a request runs through %s: add it to the reading list of CONTRIBUTING.md, where a reader needs it", file)
	}
	lines := 0
	for _, file := range listed {
		require.Contains(t, ran, file, "no request of testdata/request runs through %s: take it off the reading list of CONTRIBUTING.md", file)
		text := kit.Must(os.ReadFile(file))(t)
		lines += strings.Count(string(text), "\n")
	}
	t.Logf("the reading list: %d files, %d lines", len(listed), lines)
	require.LessOrEqual(t, lines, longestReading, "the way of a request is too long to read in a day: move what other features need out of these files")
}

// readingList returns the files of the list in CONTRIBUTING.
func readingList(t *testing.T) (files []string) {
	t.Helper()
	text := kit.Must(os.ReadFile("CONTRIBUTING.md"))(t)
	_, list, found := strings.Cut(string(text), "### A request, in this order\n")
	require.True(t, found)
	list, _, _ = strings.Cut(list, "\n#")
	dir := ""
	for _, name := range regexp.MustCompile("`([^` ]+)`").FindAllStringSubmatch(list, -1) {
		switch {
		case strings.HasSuffix(name[1], "/"):
			dir = name[1]
		case strings.HasSuffix(name[1], ".go"):
			files = append(files, dir+name[1])
		}
	}
	require.NotEmpty(t, files)
	return files
}

// filesOfARequest runs the program of testdata/request twice, without a request and with four. A
// block that ran more often the second time belongs to a request.
func filesOfARequest(t *testing.T) (files []string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "request")
	output(t, "go", "build", "-cover", "-covermode=count", "-coverpkg="+module+"/...", "-o", program, "./proof/repository/testdata/request")
	none, four := blocks(t, dir, program, "0"), blocks(t, dir, program, "4")
	for block, count := range four {
		file, _, _ := strings.Cut(strings.TrimPrefix(block, module+"/"), ":")
		if count > none[block] && !strings.HasPrefix(file, "proof/") && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	require.NotEmpty(t, files)
	slices.Sort(files)
	return files
}

// blocks returns how often each block of statements ran.
func blocks(t *testing.T, dir, program, requests string) map[string]int {
	t.Helper()
	data := filepath.Join(dir, requests)
	require.NoError(t, os.Mkdir(data, 0o755))
	run := exec.Command(program, requests)
	run.Env = append(os.Environ(), "GOCOVERDIR="+data)
	out := kit.Must(run.Output())(t)
	if requests == "4" {
		require.Equal(t, "200\n200\n200\n429\n", string(out))
	}
	profile := filepath.Join(dir, requests+".txt")
	output(t, "go", "tool", "covdata", "textfmt", "-i="+data, "-o="+profile)
	text := kit.Must(os.ReadFile(profile))(t)
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 {
			counts[fields[0]] = kit.Must(strconv.Atoi(fields[2]))(t)
		}
	}
	return counts
}

// output runs a command of the root module.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	require.NoError(t, err, "%s %s", name, strings.Join(args, " "))
	return string(out)
}
