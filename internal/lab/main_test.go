// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
)

// requireLab skips where the lab cannot stand.
func requireLab(t *testing.T) {
	t.Helper()
	if err := stands(); err != nil {
		testkit.Unable(t, "%v", err)
	}
}

// runLab runs the lab as its command line does.
func runLab(t *testing.T, args ...string) (status int, said string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status = run(t.Context(), args, &stdout, &stderr)
	t.Logf("%s%s", stdout.String(), stderr.String())
	return status, stdout.String()
}

// Every bound of the documentation holds on real instances behind a real proxy, and no honest
// client is refused that has room.
func TestEveryRowHolds(t *testing.T) {
	requireLab(t)
	dir := filepath.Join(t.TempDir(), "plots")
	status, said := runLab(t, "-short", "-out", dir)
	require.Zero(t, status)
	require.NotContains(t, said, "NOT HELD")
	for _, r := range rows() {
		require.Regexp(t, "(?m)^"+r.name+" .* held ", said)
	}
	require.Regexp(t, `(?m)^farm .* [1-9]\d*  +\S+s  +\S+s  +-?\d+$`, said, "nobody was refused for being far from home")
	for _, name := range []string{"admitted.svg", "yield.svg"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		requireXML(t, text)
		require.Contains(t, string(text), "farm", name)
	}
}

func requireXML(t *testing.T, text []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(text))
	for n := 0; ; n++ {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			require.Positive(t, n)
			return
		} else {
			require.NoError(t, err)
		}
	}
}

// With any one of the defences broken the lab fails, and names the row. The long form plays all rows.
func TestBrokenDefencesAreFoundOut(t *testing.T) {
	requireLab(t)
	all, err := breakages()
	require.NoError(t, err)
	for _, b := range all {
		t.Run(b.Name, func(t *testing.T) {
			args, says := []string{"-short", "-without", b.Name}, "\nrow "+b.Row+": "
			if judgesFleet(b.Row) {
				if !testkit.Long() {
					t.Skip("each builds a server for the race detector, and has it serve")
				}
				args, says = []string{"-fleet", fleetTime, "-without", b.Name}, "\nFAILED: "+b.Row+". "
			} else if !testkit.Long() {
				if testing.Short() {
					t.Skip("each builds a server, some seconds")
				}
				args = append(args, "-rows", b.Row)
			}
			status, said := runLab(t, args...)
			require.Equal(t, 1, status)
			require.Contains(t, said, says)
		})
	}
}

// Each defence has its place in the source, and a row that must notice. This builds nothing.
func TestDefencesHaveTheirPlace(t *testing.T) {
	all, err := breakages()
	require.NoError(t, err)
	known := map[string]bool{}
	for _, r := range rows() {
		require.False(t, known[r.name], "two rows are %s", r.name)
		known[r.name] = true
	}
	names := map[string]bool{}
	for _, b := range all {
		require.NotEmpty(t, b.Why)
		require.True(t, known[b.Row] || judgesFleet(b.Row), b.Name)
		names[b.Name] = true
		dir := t.TempDir()
		file, err := b.overlay(filepath.Join("..", ".."), dir)
		require.NoError(t, err)
		require.FileExists(t, file)
		broken, err := os.ReadFile(filepath.Join(dir, "broken.go"))
		require.NoError(t, err)
		require.Contains(t, string(broken), b.New)
		require.NotContains(t, string(broken), b.Old)
	}
	for _, name := range []string{"memory", "merge", "price", "strike", "binding", "trusted-proxies", "share", "inherit", "header-copy", "hand-back"} {
		require.True(t, names[name], name)
	}
	lost := all[0]
	lost.Old = "a line that nobody has written"
	_, err = lost.overlay(filepath.Join("..", ".."), t.TempDir())
	require.ErrorContains(t, err, "0 times in "+lost.File)
}

func TestCommandLines(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-without", "luck"}, "there are memory, merge, price, strike, binding, trusted-proxies, share, inherit, header-copy, hand-back"},
		{[]string{"-rows", "drop,luck"}, `there is no row "luck"`},
		{[]string{"drop"}, `what is "drop"?`},
		{[]string{"-luck"}, "flag provided but not defined"},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, 2, run(t.Context(), c.args, &stdout, &stderr), c.args)
		require.Contains(t, stderr.String(), c.says)
		require.Empty(t, stdout.String())
	}
	var help bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-h"}, io.Discard, &help))
	require.Contains(t, help.String(), "-short")
	o, err := parse([]string{"-rows", "drop,farm"}, io.Discard)
	require.NoError(t, err)
	some, err := o.chosen()
	require.NoError(t, err)
	require.Len(t, some, 2)
	require.Equal(t, "farm", some[1].name)
}
