// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/mutants"
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

// A short soak: a row of each kind, twice. Its verdict hangs on counts alone, so a machine that is busy takes longer, and comes to
// the same.
func TestSoak(t *testing.T) {
	requireLab(t)
	if _, err := exec.LookPath("gcc"); err != nil {
		kit.Unable(t, "the race detector needs a C compiler: %v", err)
	}
	kit.OnlyWhole(t, "builds a server for the race detector, and has it serve for some seconds")
	rows := []string{"drop", "farm-newcomers", "cold-starts", "flood", "exact"}
	status, said := runLab(t, "attack", "-short", "-for", "1s", "-rows", strings.Join(rows, ","))
	require.Zero(t, status)
	for _, r := range rows {
		require.Regexp(t, "(?m)^"+r+" .* held ", said)
	}
}

// With any one of the defences broken the lab fails, and names the row. The long form plays all rows.
func TestBrokenDefencesAreFoundOut(t *testing.T) {
	requireLab(t)
	all := kit.Must(house.Breakages())(t)
	for _, b := range all {
		t.Run(b.Name, func(t *testing.T) {
			args := []string{"attack", "-short", "-without", b.Name}
			if !kit.Long() {
				kit.OnlyWhole(t, "builds a server, for some seconds")
				args = append(args, "-rows", b.Row)
			}
			status, said := runLab(t, args...)
			require.Equal(t, 1, status)
			require.Contains(t, said, "\nrow "+b.Row+": ")
		})
	}
}

// What an instance must not do or leave behind is told when it ends, whatever the rows say.
func TestFaultsOfInstancesAreFoundOut(t *testing.T) {
	requireLab(t)
	kit.OnlyWhole(t, "builds servers, for some seconds")
	const place = "s.count(r, Admitted)"
	for fault, does := range map[string]string{
		"an instance that died, or that left goroutines when it ended": "go func() { select {} }()",
		"a line that a server logs":                                    `if strings.HasSuffix(r.Header.Get(ClientHeader), "/stranger") { panic("a test") }`,
	} {
		t.Run(fault, func(t *testing.T) {
			m := mutants.Mutant{Name: fault, In: "proof/lab/house/Site.ServeHTTP", Old: place, New: place + "\n" + does}
			dir, one := t.TempDir(), short
			one.instances = 1
			s := soak{operator: operator{dir: dir, sc: one, secrets: []string{secret()}, rows: kit.Must(chosen("washed-out"))(t)}}
			require.NoError(t, s.open(t.Context(), kit.Must(house.Build(t.Context(), dir, &house.Breakage{Mutant: m}, false))(t)))
			t.Cleanup(s.servers.Stop)
			_, err := play(t.Context(), s.servers, one, s.rows[0], 0, 0, nil)
			if err != nil {
				t.Log(err) // a panic is no answer
			}
			found := s.servers.End()
			require.NotEmpty(t, found)
			require.Equal(t, fault, found[0].What)
		})
	}
}

// A soak is told that something grows, by quarters; in a short one it may be more.
func TestGrown(t *testing.T) {
	require.Zero(t, series(nil).quarter(0.5))
	require.InDelta(t, 2.5, series{1, 1, 2, 3, 9, 9, 9, 9}.quarter(0.25), 1e-6)
	s := soak{long: time.Minute, heap: series{0, 0, 0, heapGrowth}, goroutines: series{1, 9, 1, 1 + goroutinesGrowth}}
	require.Empty(t, s.grown())
	s.heap[3]++
	s.goroutines[3]++
	require.Len(t, s.grown(), 2)
	s.long = time.Second
	require.Empty(t, s.grown())
}

// A new secret is added last and then moved first. The others go when their tokens are dead.
func TestRotation(t *testing.T) {
	o := operator{secrets: []string{"a"}}
	o.rotate(false)
	require.Len(t, o.secrets, 2)
	require.Equal(t, "a", o.secrets[0], "it signs until all have the new one")
	b := o.secrets[1]
	o.rotate(false)
	require.Equal(t, []string{b, "a"}, o.secrets)
	o.rotate(false)
	o.rotate(true)
	require.Equal(t, b, o.secrets[0])
	require.Len(t, o.secrets, 2, "what was added stays")
	o.rotate(false)
	o.rotate(true)
	require.Len(t, o.secrets, 1)
	for range 30 {
		o.rotate(false)
	}
	require.Len(t, o.secrets, 8)
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
		require.True(t, known[b.Row], b.Name)
		names = append(names, b.Name)
		_, _, err := b.Broken(filepath.Join("..", ".."))
		require.NoError(t, err)
	}
	require.Equal(t, []string{"memory", "merge", "price", "strike", "binding", "trusted-proxies", "inherit", "hearing"}, names)
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
		{[]string{"-without", "luck"}, 2, "there are memory, merge, price, strike, binding, trusted-proxies, inherit, hearing"},
		{[]string{"attack", "-rows", "drop,luck"}, 2, `there is no row "luck"`},
		{[]string{"drop"}, 2, "there are attack, price, serve, sim"},
		{[]string{"-luck"}, 2, "flag provided but not defined"},
		{[]string{"-h"}, 0, "-short"},
		{[]string{"-for", "soon"}, 2, "invalid value"},
		{[]string{"attack", "5m"}, 2, `what is "5m"?`},
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
