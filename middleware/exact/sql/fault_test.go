// SPDX-License-Identifier: Apache-2.0

package sql_test

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/sql"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

// A fault befalls a server, or the way to it, in the middle of a load, and passes. Meanwhile
// calls fail by their deadlines; what was answered stays counted, nothing is counted twice
// under its ID, and the limit holds.
func TestFaults(t *testing.T) {
	kit.OnlyWhole(t, "takes ten seconds")
	s := startServer(t)
	p := exactkit.StartProxy(t, s.addr())
	exactkit.AmidALoad(t, exactkit.OfAServer(p, s.kill, s.start, s.freeze, s.thaw), 500*time.Millisecond, func(t *testing.T) exact.Counter {
		store, _, _ := engine{"pgx", dsn(p.Addr().String(), "postgres"), sql.PostgreSQL}.open(t)
		return exactkit.Count(t, store)
	})
}

// A server that is not there has counted nothing, and says so also where only the connection of
// a swap cannot be made.
func TestNotConnectedIsNotCounted(t *testing.T) {
	db, err := stdsql.Open("pgx", dsn("127.0.0.1:"+kit.FreePort(t), "postgres"))
	require.NoError(t, err)
	defer db.Close()
	store := kit.Must(sql.Open(db, sql.Config{Dialect: sql.PostgreSQL}))(t)
	_, err = exactkit.Count(t, store).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5)})
	require.ErrorIs(t, err, exact.ErrNotCounted)
	require.ErrorIs(t, store.Swap(t.Context(), "n", "", []byte("v"), time.Hour), exact.ErrNotCounted)
}

// A call that waits in vain for one of the caller's connections has sent nothing.
func TestWaitingForAConnectionIsNotCounted(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		store, tap, db := e.open(t)
		db.SetMaxOpenConns(1)
		held, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer held.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		err = store.Swap(ctx, "n", "", []byte("v"), time.Hour)
		require.ErrorIs(t, err, exact.ErrNotCounted)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, tap.swaps.Load())
	})
}

// A file of SQLite that another program holds is waited for; then it is a race that was lost.
func TestALockedFileIsContended(t *testing.T) {
	e := sqliteThatWaits(t.TempDir(), 5)
	store, tap, db := e.open(t)
	c, call := exactkit.Count(t, store), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5), ID: "one"}
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	kit.Must(tx.ExecContext(t.Context(), "DELETE FROM tallystick"))(t)
	tap.swaps.Store(0)
	_, err = c.Take(t.Context(), call)
	require.ErrorIs(t, err, exact.ErrContended)
	require.NotErrorIs(t, err, exact.ErrMaybeCounted)
	require.EqualValues(t, 16, tap.swaps.Load())
	require.NoError(t, tx.Rollback())
	require.EqualValues(t, 4, exactkit.Take(t, c, call).Limits[0].Remaining)
}

func TestMain(m *testing.M) {
	exactkit.Process(openAt)
	code := m.Run()
	if shared != nil {
		shared.end()
	}
	os.Exit(code)
}

// openAt opens a counter for good: where is the driver, a space, and the data source.
func openAt(where string) (exact.Counter, error) {
	driver, name, _ := strings.Cut(where, " ")
	db, err := stdsql.Open(driver, name)
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(16)
	dialect := sql.PostgreSQL
	if driver == "sqlite" {
		dialect = sql.SQLite
	}
	store, err := sql.Open(db, sql.Config{Dialect: dialect})
	if err != nil {
		return nil, err
	}
	return cas.New(store, cas.Config{})
}

// TestExactAcrossProcesses has four processes make 5000 attempts at a limit of 1000: exactly
// 1000 pass, and exactly 1000 are counted also when the way back loses answers.
func TestExactAcrossProcesses(t *testing.T) {
	kit.OnlyWhole(t, "starts processes for some seconds")
	s := startServer(t)
	t.Run("PostgreSQL", func(t *testing.T) {
		store, _, _ := engine{"pgx", s.dsn("postgres"), sql.PostgreSQL}.open(t)
		exactkit.AcrossProcesses(t, 3, 100, s.addr(), func(addr string) string { return "pgx " + dsn(addr, "postgres") }, exactkit.Count(t, store))
	})
	t.Run("SQLite", func(t *testing.T) {
		e := sqliteIn(t.TempDir())
		store, _, _ := e.open(t)
		exactkit.Processes(t, 3, "sqlite "+e.dsn, exactkit.Count(t, store), nil)
	})
}

// endless is a key for a process that will not come to its end.
const endless = "endless"

// A process that is killed while it writes leaves nothing half written, and no lock: what it has
// charged stays charged, and another goes on from there.
func TestAKilledWriterLeavesNoLock(t *testing.T) {
	kit.OnlyWhole(t, "starts processes")
	onEach(t, func(t *testing.T, e engine) {
		store, _, _ := e.open(t)
		c, p := exactkit.Count(t, store), exactkit.PerYear(t, 1_000_000)
		for round := range int64(3) {
			child := exactkit.Attempts(e.driver+" "+e.dsn, endless, 1_000_000)
			require.NoError(t, child.Start())
			used := func() int64 {
				return 1_000_000 - exactkit.Left(t, c, exact.Call{Key: endless, Cost: 1, Policy: p})
			}
			before := used()
			require.Eventually(t, func() bool { return used() > before+100*(round+1) }, exactkit.Patient, time.Millisecond)
			require.NoError(t, child.Process.Kill())
			require.Error(t, child.Wait(), "it has not come to its end")
			require.Eventually(t, func() bool { // a server may still be at its last statement
				at := used()
				return 1_000_000-exactkit.Take(t, c, exact.Call{Key: endless, Cost: 1, Policy: p}).Limits[0].Remaining == at+1
			}, exactkit.Patient, time.Millisecond)
		}
	})
}

// pooled starts a PgBouncer before the shared server, which gives each transaction whichever of a
// few connections is free, and ends it with the test by its process id. It returns where.
func pooled(t *testing.T, of *server) (addr string) {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		bin = "/usr/sbin/pgbouncer"
		if _, err := os.Stat(bin); err != nil {
			kit.Unable(t, "there is no pgbouncer (Debian: apt-get install pgbouncer)")
		}
	}
	return exactkit.StartServer(t, func(port string) *exec.Cmd {
		config := filepath.Join(of.dir, "pgbouncer-"+port+".ini")
		users := config + ".users"
		require.NoError(t, os.WriteFile(users, []byte(`"tallystick" ""`), 0o644))
		require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=127.0.0.1 port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 4
`, of.port, port, users), 0o644))
		return of.command(bin, "-q", config)
	}).Addr()
}

// Behind a pooler each statement may be on another connection than the one before, where what a
// driver has prepared is not. By the modes of pgx that the package names all is counted there; by its
// default what fails says why, and is not counted. A PgBouncer from 1.21 on follows that too.
func TestBehindAPooler(t *testing.T) {
	config := kit.Must(pgx.ParseConfig(database(t)))(t)
	dsn := dsn(pooled(t, shared), config.Database)
	for mode, all := range map[string]bool{"exec": true, "cache_describe": true, "simple_protocol": true, "cache_statement": false} {
		t.Run(mode, func(t *testing.T) {
			p := exactkit.PerYear(t, 1000)
			var counters []exact.Counter
			for range 3 { // instances
				store, _, _ := engine{"pgx", dsn + "&default_query_exec_mode=" + mode, sql.PostgreSQL}.open(t)
				counters = append(counters, exactkit.Count(t, store))
			}
			var counted atomic.Int64
			kit.Together(12, func(i int) {
				for n := range 30 {
					_, err := counters[i%3].Take(context.Background(), exact.Call{Key: mode, Cost: 1, Policy: p, ID: fmt.Sprint(i, n)})
					switch {
					case err == nil:
						counted.Add(1)
					case !errors.Is(err, exact.ErrContended) && (all || !errors.Is(err, sql.ErrPooled)):
						t.Error(err)
					}
				}
			})
			t.Logf("%d of 360 calls are counted", counted.Load())
			store, _, _ := engine{"pgx", shared.dsn(config.Database), sql.PostgreSQL}.open(t)
			v := kit.Must(exactkit.Count(t, store).Peek(t.Context(), exact.Call{Key: mode, Cost: 1, Policy: p}))(t)
			require.Equal(t, 1000-counted.Load(), v.Limits[0].Remaining)
		})
	}
}
