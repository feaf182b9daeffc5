// SPDX-License-Identifier: Apache-2.0

package sql_test

import (
	"context"
	stdsql "database/sql"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/faults"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/sql"
)

// A fault befalls a server, or the way to it, in the middle of a load, and passes. Meanwhile
// calls fail by their deadlines; what was answered stays counted, nothing is counted twice
// under its ID, and the limit holds.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes ten seconds")
	}
	s := startServer(t)
	p := faults.StartProxy(t, s.addr())
	all := append(faults.OfTheWay(p),
		faults.Fault{Name: "killed and restarted", Strike: s.kill, Heal: s.start},
		faults.Fault{Name: "frozen", Strike: s.freeze, Heal: s.thaw})
	faults.AmidALoad(t, all, 500*time.Millisecond, func(t *testing.T) exact.Counter {
		store, _, _ := engine{"pgx", dsn(p.Addr().Port, "postgres"), sql.PostgreSQL}.open(t)
		return count(t, store)
	})
}

// A server that is not there has counted nothing, and says so also where only the connection of
// a swap cannot be made.
func TestNotConnectedIsNotCounted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	db, err := stdsql.Open("pgx", dsn(l.Addr().(*net.TCPAddr).Port, "postgres"))
	require.NoError(t, err)
	defer db.Close()
	store, err := sql.Open(db, sql.Config{Dialect: sql.PostgreSQL})
	require.NoError(t, err)
	_, err = count(t, store).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: compile(t, yearly(5))})
	require.ErrorIs(t, err, exact.ErrNotCounted)
	require.ErrorIs(t, store.Swap(t.Context(), "n", "", []byte("v"), time.Hour), exact.ErrNotCounted)
}

// Who waits in vain for one of the caller's connections has sent nothing.
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
	c, call := count(t, store), exact.Call{Key: "k", Cost: 1, Policy: compile(t, yearly(5)), ID: "one"}
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "DELETE FROM tallystick")
	require.NoError(t, err)
	tap.swaps.Store(0)
	_, err = c.Take(t.Context(), call)
	require.ErrorIs(t, err, exact.ErrContended)
	require.NotErrorIs(t, err, exact.ErrMaybeCounted)
	require.EqualValues(t, 16, tap.swaps.Load())
	require.NoError(t, tx.Rollback())
	v, err := c.Take(t.Context(), call)
	require.NoError(t, err)
	require.EqualValues(t, 4, v.Limits[0].Remaining)
}
