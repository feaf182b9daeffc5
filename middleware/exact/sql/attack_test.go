// SPDX-License-Identifier: Apache-2.0

package sql_test

import (
	stdsql "database/sql"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/sql"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

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
