// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/lab/world"
)

// requireLab skips where the lab cannot stand.
func requireLab(t *testing.T) {
	t.Helper()
	if err := house.Stands(); err != nil {
		kit.Unable(t, "%v", err)
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
	status, said := runLab(t, "attack", "-short")
	require.Zero(t, status)
	require.NotContains(t, said, "NOT HELD")
	for _, r := range rows() {
		require.Regexp(t, "(?m)^"+r.name+" .* held ", said)
	}
}

// soakTime is the short form of an hour. It is longer where the machine is busy: each thing must happen.
const soakTime = "10s"

// requireRaces skips where no program can be built for the race detector.
func requireRaces(t *testing.T) {
	t.Helper()
	requireLab(t)
	if _, err := exec.LookPath("gcc"); err != nil {
		kit.Unable(t, "the race detector needs a C compiler: %v", err)
	}
}

// A short soak: all that the long one has, each at least once. Its verdict hangs on counts alone, so a machine that is busy takes
// longer, and comes to the same.
func TestSoak(t *testing.T) {
	requireRaces(t)
	kit.OnlyWhole(t, "builds a server for the race detector, and has it serve for some seconds")
	status, said := runLab(t, "soak", "-for", soakTime)
	require.Zero(t, status)
	require.Regexp(t, `(?m)^races, of processes +0 +0 +ok`, said)
}

// With any one of the defences broken the lab fails, and names the row. The long form plays all rows.
func TestBrokenDefencesAreFoundOut(t *testing.T) {
	requireLab(t)
	all := kit.Must(house.Breakages())(t)
	for _, b := range all {
		t.Run(b.Name, func(t *testing.T) {
			args, says := []string{"attack", "-short", "-without", b.Name}, "\nrow "+b.Row+": "
			if world.Judges(b.Row) {
				if !kit.Long() {
					t.Skip("each builds a server for the race detector, and has it serve")
				}
				args, says = []string{"soak", "-for", soakTime, "-without", b.Name}, "\nFAILED: "+b.Row+". "
			} else if !kit.Long() {
				kit.OnlyWhole(t, "builds a server, for some seconds")
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
	all, err := house.Breakages()
	require.NoError(t, err)
	known := map[string]bool{}
	for _, r := range rows() {
		require.False(t, known[r.name], "two rows are %s", r.name)
		known[r.name] = true
	}
	var names []string
	for _, b := range all {
		require.NotEmpty(t, b.Why)
		require.True(t, known[b.Row] || world.Judges(b.Row), b.Name)
		names = append(names, b.Name)
		_, _, err := b.Broken(filepath.Join("..", ".."))
		require.NoError(t, err)
	}
	require.Equal(t, []string{"memory", "merge", "price", "strike", "binding", "trusted-proxies", "inherit", "hearing", "header-copy", "hand-back"}, names)
	lost := all[0]
	lost.Old = "a line that no file has"
	_, _, err = lost.Broken(filepath.Join("..", ".."))
	require.ErrorContains(t, err, "0 times in "+lost.In)
}

func TestCommandLines(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"-without", "luck"}, 2, "there are memory, merge, price, strike, binding, trusted-proxies, inherit, hearing, header-copy, hand-back"},
		{[]string{"attack", "-rows", "drop,luck"}, 2, `there is no row "luck"`},
		{[]string{"drop"}, 2, "there are attack, price, serve, sim, soak"},
		{[]string{"-luck"}, 2, "flag provided but not defined"},
		{[]string{"-h"}, 0, "-short"},
		{[]string{"soak", "-h"}, 0, "-for"},
		{[]string{"soak", "-for", "soon"}, 2, "invalid value"},
		{[]string{"soak", "-for", "0s"}, 2, "must be more than 0"},
		{[]string{"soak", "5m"}, 2, `what is "5m"?`},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, c.status, run(t.Context(), c.args, &stdout, &stderr), c.args)
		require.Contains(t, stderr.String(), c.says)
		require.Empty(t, stdout.String())
	}
	some := kit.Must(chosen("drop,farm"))(t)
	require.Len(t, some, 2)
	require.Equal(t, "farm", some[1].name)
}
