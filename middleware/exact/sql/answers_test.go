// SPDX-License-Identifier: Apache-2.0

package sql_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/sql"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

type state string

func (s state) Error() string    { return "the server said " + string(s) }
func (s state) SQLState() string { return string(s) }

func TestAnswers(t *testing.T) {
	unknown := errors.New("neither")
	for _, tc := range []struct {
		err error
		is  error
	}{
		{state("40001"), cas.ErrChanged},
		{state("40P01"), cas.ErrChanged},
		{state("55P03"), cas.ErrChanged}, // the database has a lock_timeout
		{state("40003"), unknown},        // "statement completion unknown"
		{state("53100"), exact.ErrFull},
		{state("53300"), exact.ErrBusy},
		{state("53200"), exact.ErrNotCounted},
		{state("42P01"), exact.ErrNotCounted}, // no such table
		{state("25006"), exact.ErrNotCounted}, // a standby
		{state("42P05"), sql.ErrPooled},       // of a pooler
		{state("26000"), sql.ErrPooled},
		{state("57P01"), unknown}, // shut down, perhaps after the commit
		{state("57014"), unknown},
		{state("08006"), unknown},
		{state("XX000"), unknown},
		{state(""), unknown},
		{errors.New("database is locked (5) (SQLITE_BUSY)"), cas.ErrChanged},
		{errors.New("database table is locked"), cas.ErrChanged},
		{errors.New("database or disk is full (13)"), exact.ErrFull},
		{errors.New("disk I/O error (10)"), unknown},
		{context.DeadlineExceeded, unknown},
	} {
		err := sql.Classify(fmt.Errorf("driver: %w", tc.err))
		require.Error(t, err)
		if tc.is == unknown {
			require.NotErrorIs(t, err, exact.ErrNotCounted, tc.err)
			require.NotErrorIs(t, err, cas.ErrChanged, tc.err)
			continue
		}
		require.ErrorIs(t, err, tc.is, tc.err)
		require.Equal(t, tc.is != cas.ErrChanged, errors.Is(err, exact.ErrNotCounted), tc.err)
		require.Equal(t, tc.is == cas.ErrChanged, errors.Is(err, cas.ErrChanged), tc.err)
		require.Equal(t, tc.is == exact.ErrFull, errors.Is(err, exact.ErrFull), tc.err)
	}
	require.NoError(t, sql.Classify(nil))
}

// What a server cannot serialize is run again, and no caller sees it: many instances race at the
// strictest isolation level.
func TestNoSerializationFailureIsLeft(t *testing.T) {
	e := engine{"pgx", database(t) + "&default_transaction_isolation=serializable", sql.PostgreSQL}
	store, _, _ := e.open(t)
	p := exactkit.PerYear(t, 100)
	var admitted, contended atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		c := exactkit.Count(t, store)
		wg.Go(func() {
			for n := range 40 {
				key := "hot"
				if n%4 == 0 { // and rows that come, with those that go
					key = fmt.Sprint("k", n)
				}
				v, err := c.Take(context.Background(), exact.Call{Key: key, Cost: 1, Policy: p})
				switch {
				case errors.Is(err, exact.ErrContended):
					contended.Add(1)
				case err != nil:
					t.Error(err)
				case v.Admitted && key == "hot":
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d of 320 calls lost all their races", contended.Load())
	v := kit.Must(exactkit.Count(t, store).Peek(t.Context(), exact.Call{Key: "hot", Cost: 1, Policy: p}))(t)
	require.Equal(t, 100-admitted.Load(), v.Limits[0].Remaining, "what was admitted is what is counted")
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	_, err := sql.Open(nil, sql.Config{Table: "No; DROP"})
	for _, said := range []string{"db: is nil", "Dialect: must be PostgreSQL or SQLite", "Table: must be up to 50 lower-case letters"} {
		require.ErrorContains(t, err, said)
	}
	e := sqliteIn(t.TempDir())
	_, _, db := e.open(t)
	_, err = sql.Open(db, sql.Config{Dialect: sql.SQLite, Table: "a.b"})
	require.ErrorContains(t, err, "Table: must not name a schema in SQLite")
}

// A table of another name, of a word that SQL has itself, is apart from others.
func TestTables(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		_, _, db := e.open(t)
		names := []string{"order", "user"}
		if e.dialect == sql.PostgreSQL {
			kit.Must(db.ExecContext(t.Context(), `CREATE SCHEMA "select"`))(t)
			names = append(names, "select.order")
		}
		for _, name := range names {
			store, err := sql.Open(db, sql.Config{Dialect: e.dialect, Table: name})
			require.NoError(t, err)
			_, _, err = store.Load(t.Context(), "n")
			require.Error(t, err, "it is not made unasked")
			require.NoError(t, store.CreateSchema(t.Context()))
			value, _, err := store.Load(t.Context(), "n")
			require.NoError(t, err)
			require.Empty(t, value)
			require.NoError(t, store.Swap(t.Context(), "n", "", []byte(name), time.Hour))
			require.NoError(t, store.CreateSchema(t.Context()), "it is there")
			value, revision, err := store.Load(t.Context(), "n")
			require.NoError(t, err)
			require.Equal(t, name, string(value))
			require.ErrorIs(t, store.Swap(t.Context(), "n", "no number", nil, time.Hour), exact.ErrNotCounted)
			require.NoError(t, store.Swap(t.Context(), "n", revision, []byte("v"), time.Hour))
		}
	})
}

// Instances that start at once make one table.
func TestCreateSchemaAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		_, _, db := e.open(t)
		store := kit.Must(sql.Open(db, sql.Config{Dialect: e.dialect, Table: "at_once"}))(t)
		kit.Together(8, func(int) {
			if err := store.CreateSchema(context.Background()); err != nil {
				t.Error(err)
			}
		})
	})
}
