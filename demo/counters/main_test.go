// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

// An operator looks at two customers, forgets one, and moves both from a file to Redis, to PostgreSQL
// and back.
func TestAnOperator(t *testing.T) {
	t.Setenv("TALLYSTICK_SECRET", strings.Repeat("s", 32))
	said := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), args, &out))
		return out.String()
	}
	engines := []string{"file:" + filepath.Join(t.TempDir(), "counts"), "redis://" + kit.Redis(t) + "/0", startPostgres(t), "file:" + filepath.Join(t.TempDir(), "other")}
	spend := func(spec, customer string, cost int64) {
		counter, done, err := open(t.Context(), spec)
		require.NoError(t, err)
		limit := kit.Must(middleware.New(config(counter)))(t)
		a := kit.Must(limit.Decide(t.Context(), middleware.Ask{Identity: middleware.APIKey(customer), Cost: cost}))(t)
		require.True(t, a.Admitted)
		require.NoError(t, done())
	}
	spend(engines[0], "c1", 50)
	spend(engines[0], "c2", 7)
	for i, spec := range engines {
		require.Contains(t, said(spec, "look", "c1"), "day: "+strconv.Itoa(50+i)+" of 1000 used\n")
		require.Contains(t, said(spec, "look", "c2"), "day: 7 of 1000 used\n")
		require.Equal(t, "2 accounts\n", said(spec, "count"))
		if i < len(engines)-1 {
			spend(spec, "c1", 1)
			require.Equal(t, "2 copied, 0 were there already\n", said(spec, "copy", engines[i+1]))
			require.Equal(t, "0 copied, 2 were there already\n", said(spec, "copy", engines[i+1]))
		}
		require.Empty(t, said(spec, "reset", "c1"))
		require.Equal(t, "minute: 0 of 60 used\nday: 0 of 1000 used\n", said(spec, "look", "c1"))
		require.Contains(t, said(spec, "look", "c2"), "day: 7 of 1000 used\n")
	}
	spend(engines[0], "c1", 60)
	require.Regexp(t, `^minute: \d+ of 60 used\nday: 60 of 1000 used\n`, said(engines[0], "look", "c1"))
}

func TestWrongUse(t *testing.T) {
	counts := "file:" + filepath.Join(t.TempDir(), "counts")
	for _, args := range [][]string{nil, {counts}, {counts, "look"}, {counts, "dance"}, {counts, "count", "c1"}} {
		require.ErrorIs(t, run(t.Context(), args, os.Stdout), errUsage)
	}
	for _, spec := range []string{"", "mysql://x", "memory"} {
		require.ErrorContains(t, run(t.Context(), []string{spec, "count"}, os.Stdout), "a counter is file:PATH")
	}
}

// startPostgres starts a server under a user other than root, as PostgreSQL demands.
func startPostgres(t *testing.T) string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		kit.Unable(t, "there is no PostgreSQL (Debian: apt-get install postgresql)")
	}
	dir, err := os.MkdirTemp("", "tallystick-postgres-") // not t.TempDir, which others cannot enter
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var as *syscall.SysProcAttr
	if os.Getuid() == 0 {
		u := kit.Must(user.Lookup("nobody"))(t)
		uid := kit.Must(strconv.Atoi(u.Uid))(t)
		require.NoError(t, os.Chown(dir, uid, uid))
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	data, port := filepath.Join(dir, "data"), kit.FreePort(t)
	does := func(name string, args ...string) {
		cmd := exec.Command(filepath.Join(found[len(found)-1], name), append([]string{"-D", data}, args...)...)
		cmd.Dir, cmd.SysProcAttr, cmd.Env = dir, as, []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
		require.NoError(t, cmd.Run(), name)
	}
	does("initdb", "-U", "tallystick", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	does("pg_ctl", "-w", "-l", filepath.Join(dir, "log"), "-o", "-F -h 127.0.0.1 -p "+port+" -k "+dir, "start")
	t.Cleanup(func() { does("pg_ctl", "-w", "-m", "immediate", "stop") })
	return "postgres://tallystick@127.0.0.1:" + port + "/postgres?sslmode=disable"
}
