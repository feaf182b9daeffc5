// SPDX-License-Identifier: Apache-2.0

package sql_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/cas/castest"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/sql"
	"github.com/tallystick/tallystick/proof/exactkit"
)

func TestStore(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		store, _, _ := e.open(t)
		require.NoError(t, castest.TestStore(store, 1<<20))
	})
}

// By the server's clock, and by one that the test turns.
func TestCounter(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		store, tap, _ := e.open(t)
		clock := exacttest.NewClock()
		for _, s := range []*exacttest.Suite{
			{Open: func() (exact.Counter, error) { return cas.New(store, cas.Config{}) }},
			{Open: func() (exact.Counter, error) { return cas.New(store, cas.Config{Now: clock.Now}) }, Clock: clock},
		} {
			s.LoseAnswer = func(exact.Counter) { tap.lose.Store(true) }
			require.NoError(t, s.Test())
		}
	})
}

// An admitted call is two statements, a refusal and a look are one.
func TestRoundTrips(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		store, tap, _ := e.open(t)
		c, p := exactkit.Count(t, store), exactkit.PerYear(t, 2)
		for n, want := range [][]int64{{1, 1}, {2, 2}, {3, 2}} {
			exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
			require.Equal(t, want, []int64{tap.loads.Load(), tap.swaps.Load()}, n)
		}
		exactkit.Peek(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
		require.Equal(t, []int64{4, 2}, []int64{tap.loads.Load(), tap.swaps.Load()})
	})
}

// Many callers of a hot key travel together.
func TestHotKeyIsMerged(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		store, tap, _ := e.open(t)
		c, call := exactkit.Count(t, store), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 1000)}
		admitted := exactkit.Admitted(t, 128, 10, func(int, int) (exact.Counter, exact.Call) { return c, call })
		require.EqualValues(t, 1000, admitted)
		// How many depends on how fast the server is beside 128 callers: 20 to 850 were seen.
		require.Less(t, tap.swaps.Load(), admitted, "each has gone by itself")
	})
}

// A refusal waits for no lock, and takes none: another may hold the row, and may have it.
func TestARefusalTakesNoLock(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		store, _, db := e.open(t)
		c, call := exactkit.Count(t, store), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 1)}
		exactkit.Take(t, c, call)
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), "UPDATE tallystick SET expires = expires")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // one that waits does without end
		defer cancel()
		v, err := c.Take(ctx, call)
		require.NoError(t, err)
		require.False(t, v.Admitted)
		require.NoError(t, tx.Rollback())
	})
}

// The clock is the server's: time that passes here, in a program whose clock is off by a day, is
// nothing to it.
func TestTheServersClockCounts(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		store, _, db := e.open(t)
		began := time.Now().Truncate(time.Millisecond)
		_, revision, now, err := store.LoadAt(t.Context(), "none")
		require.NoError(t, err)
		require.Empty(t, revision)
		require.False(t, now.Before(began), "a server of this machine")
		require.False(t, now.After(time.Now().Add(time.Millisecond)))

		v, err := exactkit.Count(t, store).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5)})
		require.NoError(t, err)
		_, _, after, err := store.LoadAt(t.Context(), "none")
		require.NoError(t, err)
		require.False(t, v.Receipt.At.Before(now))
		require.False(t, v.Receipt.At.After(after))

		// Of a row as well: it goes a minute, rounded up, after it counts.
		var expires int64
		require.NoError(t, store.Swap(t.Context(), "n", "", []byte("v"), time.Hour))
		_, _, after, err = store.LoadAt(t.Context(), "none")
		require.NoError(t, err)
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT expires FROM tallystick WHERE name = 'n'").Scan(&expires))
		at := time.UnixMicro(expires)
		require.Equal(t, at.Truncate(time.Minute), at, "so that the index seldom changes")
		require.True(t, at.After(now.Add(time.Hour)))
		require.False(t, at.After(after.Add(time.Hour+2*time.Minute)))
	})
}

// New rows take the place of those that have expired, so that a table of keys that come and go
// does not grow; those that count stay, and so does what is charged anew. A row goes when it was
// seen to have expired an hour before: one moment of a clock that is ahead removes none.
func TestExpiredRowsGo(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		store, _, db := e.open(t)
		names := func() (n int) {
			require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM tallystick").Scan(&n))
			return n
		}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			require.NoError(t, store.Swap(t.Context(), name, "", []byte("old"), time.Hour))
		}
		_, err := db.ExecContext(t.Context(), "UPDATE tallystick SET expires = 60000000 WHERE name <> 'e'")
		require.NoError(t, err)
		for _, name := range []string{"x", "y"} {
			require.NoError(t, store.Swap(t.Context(), name, "", []byte("new"), time.Hour))
		}
		require.Equal(t, 7, names(), "one moment")
		var least int64
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT min(expires) FROM tallystick").Scan(&least))
		require.Greater(t, time.Until(time.UnixMicro(least)), 59*time.Minute)
		_, err = db.ExecContext(t.Context(), "DELETE FROM tallystick WHERE name IN ('x', 'y')")
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), "UPDATE tallystick SET expires = 60000000 + expires % 60000000 WHERE name <> 'e'") // an hour passes
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), "UPDATE tallystick SET expires = expires + 60000000 WHERE name = 'd'")
		require.NoError(t, err)
		_, revision, err := store.Load(t.Context(), "a")
		require.NoError(t, err)
		require.NoError(t, store.Swap(t.Context(), "a", revision, []byte("charged"), time.Hour))
		require.Equal(t, 5, names(), "to charge a key that is there removes nothing")
		_, gone, err := store.Load(t.Context(), "b")
		require.NoError(t, err)
		require.NoError(t, store.Swap(t.Context(), "f", "", []byte("new"), time.Hour))
		require.Equal(t, 3, names(), "three have gone, one has come")
		require.NoError(t, store.Swap(t.Context(), "g", "", []byte("new"), time.Hour))
		require.Equal(t, 4, names())
		for _, name := range []string{"a", "e", "f", "g"} {
			value, _, err := store.Load(t.Context(), name)
			require.NoError(t, err)
			require.NotEmpty(t, value, name)
		}
		require.ErrorIs(t, store.Swap(t.Context(), "b", gone, []byte("late"), time.Hour), cas.ErrChanged, "of who has read it before")
		require.Equal(t, 4, names())
	})
}

// What removes them goes by the index, however many rows there are.
func TestExpiryGoesByTheIndex(t *testing.T) {
	e := engine{"pgx", database(t), sql.PostgreSQL}
	_, _, db := e.open(t)
	_, err := db.ExecContext(t.Context(), "INSERT INTO tallystick SELECT md5(n::text), 'a', n, 4102444800000000 + n FROM generate_series(1, 20000) AS n")
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "ANALYZE tallystick")
	require.NoError(t, err)
	rows, err := db.QueryContext(t.Context(), "EXPLAIN "+sql.Insert(sql.PostgreSQL), "n", []byte("v"), int64(1), int64(1))
	require.NoError(t, err)
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		plan = append(plan, line)
	}
	require.NoError(t, rows.Err())
	all := strings.Join(plan, "\n")
	require.Contains(t, all, "Index Cond: (expires <")
	require.NotContains(t, all, "Seq Scan", all)
}

// A driver that runs a statement again, because its connection looked broken, does not lose its
// race against itself: that would charge the call twice.
func TestAStatementThatIsRunTwiceCountsOnce(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		store, tap, _ := e.open(t)
		c, p := exactkit.Count(t, store), exactkit.PerYear(t, 5)
		for n := range int64(3) { // the first inserts
			tap.broken.Store(true)
			require.Equal(t, 4-n, exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p}).Limits[0].Remaining)
			require.False(t, tap.broken.Load())
		}
		require.EqualValues(t, 6, tap.swaps.Load())
	})
}

// Revisions are not numbered by a process, whose numbers come again in a copy of it.
func TestRevisionsAreDrawn(t *testing.T) {
	seen := make(map[int64]bool)
	for range 1000 {
		n := sql.NewRevision()
		require.False(t, seen[n] || n < 0)
		seen[n] = true
	}
}
