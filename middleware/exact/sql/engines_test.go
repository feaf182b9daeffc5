// SPDX-License-Identifier: Apache-2.0

package sql_test

import (
	stdsql "database/sql"
	"fmt"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/tallystick/tallystick/middleware/exact/sql"
)

// An engine is one of the two, with an empty database.
type engine struct {
	driver  string
	dsn     string
	dialect sql.Dialect
}

// onEach runs a test on both engines, at the same time.
func onEach(t *testing.T, test func(t *testing.T, e engine)) {
	t.Run("PostgreSQL", func(t *testing.T) {
		e := engine{"pgx", database(t), sql.PostgreSQL}
		t.Parallel()
		test(t, e)
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, sqliteIn(t.TempDir()))
	})
}

func sqliteIn(dir string) engine { return sqliteThatWaits(dir, 5000) }

// sqliteThatWaits returns one whose connections wait for a lock for so many milliseconds.
func sqliteThatWaits(dir string, busy int) engine {
	path := fmt.Sprintf("file:%s?_pragma=busy_timeout(%d)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)", filepath.Join(dir, "counts.db"), busy)
	return engine{"sqlite", path, sql.SQLite}
}

// open opens a database of an engine, tapped, and a store in it.
func (e engine) open(t testing.TB) (sql.Store, *tap, *stdsql.DB) {
	t.Helper()
	p := new(tap)
	db, err := p.open(e.driver, e.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	db.SetMaxIdleConns(16)
	store, err := sql.Open(db, sql.Config{Dialect: e.dialect})
	require.NoError(t, err)
	require.NoError(t, store.CreateSchema(t.Context()))
	p.loads.Store(0)
	p.swaps.Store(0)
	return store, p, db
}
