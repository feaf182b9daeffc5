package sql_test

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	p := startProxy(t, s.port)
	for _, f := range []struct {
		name         string
		strike, heal func()
	}{
		{"killed and restarted", s.kill, s.start},
		{"frozen", s.freeze, s.thaw},
		{"cut in the middle of answers", func() { p.set(func(p *proxy) { p.cutAfter = 2 }); p.cut() }, func() { p.set(func(p *proxy) { p.cutAfter = 0 }) }},
		{"drops answers", func() { p.set(func(p *proxy) { p.swallow = true }) }, func() { p.set(func(p *proxy) { p.swallow = false }); p.cut() }},
	} {
		t.Run(f.name, func(t *testing.T) {
			const limit, callers = 300, 8
			store, _, _ := engine{"pgx", dsn(p.port(), "postgres"), sql.PostgreSQL}.open(t)
			c, policy := count(t, store), compile(t, yearly(limit))
			var admitted, maybe, failed atomic.Int64
			healed := make(chan struct{})
			var wg sync.WaitGroup
			take := func(id string) error {
				ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
				defer cancel()
				v, err := c.Take(ctx, exact.Call{Key: f.name, Cost: 1, Policy: policy, ID: id})
				if err == nil && v.Admitted {
					admitted.Add(1)
				}
				return err
			}
			for w := range callers {
				wg.Go(func() {
					for n := range 100 {
						id := fmt.Sprint(w, "-", n)
						err := take(id)
						if err == nil {
							continue
						}
						failed.Add(1)
						if errors.Is(err, exact.ErrMaybeCounted) {
							maybe.Add(1)
						}
						<-healed // so that the fault costs each caller one deadline
						for end := time.Now().Add(patient); err != nil && time.Now().Before(end); {
							err = take(id)
						}
						if err != nil {
							t.Error(err)
						}
					}
				})
				if w == 0 {
					require.Eventually(t, func() bool { return admitted.Load() > 10 }, patient, time.Millisecond)
					f.strike()
				}
			}
			require.Eventually(t, func() bool { return failed.Load() >= callers }, patient, time.Millisecond, "no call hangs")
			f.heal()
			close(healed)
			wg.Wait()
			t.Logf("%d calls failed, of which %d may have been counted", failed.Load(), maybe.Load())
			require.EqualValues(t, limit, admitted.Load(), "of 800 calls, each repeated by its ID until it was answered")
			v, err := c.Peek(t.Context(), exact.Call{Key: f.name, Cost: 1, Policy: policy})
			require.NoError(t, err)
			require.Zero(t, v.Limits[0].Remaining)
		})
	}
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
