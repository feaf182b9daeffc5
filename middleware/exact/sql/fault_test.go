// SPDX-License-Identifier: Apache-2.0

package sql_test

import (
	"context"
	stdsql "database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
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
	store, err := sql.Open(db, sql.Config{Dialect: sql.PostgreSQL})
	require.NoError(t, err)
	_, err = exactkit.Count(t, store).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5)})
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
	c, call := exactkit.Count(t, store), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5), ID: "one"}
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
	require.EqualValues(t, 4, exactkit.Take(t, c, call).Limits[0].Remaining)
}
