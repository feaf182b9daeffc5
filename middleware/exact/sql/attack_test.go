package sql_test

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/sql"
	"github.com/tallystick/tallystick/storeless"
)

const attackChild = "TALLYSTICK_ATTACK_SQL" // the data source

func TestMain(m *testing.M) {
	if name := os.Getenv(attackChild); name != "" {
		if err := attack(os.Getenv("TALLYSTICK_ATTACK_DRIVER"), name, os.Getenv("TALLYSTICK_ATTACK_KEY")); err != nil {
			println(err.Error())
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if shared != nil {
		shared.end()
	}
	os.Exit(code)
}

// TestExactAcrossProcesses has four processes make 5000 attempts at a limit of 1000: exactly
// 1000 pass. Where the way back loses answers, exactly 1000 are counted; of those, one whose ID
// more than 128 others have overtaken until its process was connected again was charged twice, and
// nobody got what it was charged first: at most the calls of the batch that had no answer.
func TestExactAcrossProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts processes for some seconds")
	}
	s := startServer(t)
	lossy := startProxy(t, s.port)
	lossy.set(func(p *proxy) { p.loseEvery = 100 })
	for _, tc := range []struct {
		name string
		to   engine // by which the children come
		by   engine // by which the test does
	}{
		{"PostgreSQL", engine{"pgx", s.dsn("postgres"), sql.PostgreSQL}, engine{"pgx", s.dsn("postgres"), sql.PostgreSQL}},
		{"PostgreSQL, with lost answers", engine{"pgx", dsn(lossy.port(), "postgres"), sql.PostgreSQL}, engine{"pgx", s.dsn("postgres"), sql.PostgreSQL}},
		{"SQLite", sqliteIn(t.TempDir()), engine{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.by == (engine{}) {
				tc.by = tc.to
			}
			store, _, _ := tc.by.open(t)
			for round := range 3 {
				key, before := fmt.Sprint(tc.name, round), lossy.lost.Load()
				var admitted, lost atomic.Int64
				var wg sync.WaitGroup
				for range 4 {
					child := exec.Command(os.Args[0])
					child.Env = append(os.Environ(), attackChild+"="+tc.to.dsn, "TALLYSTICK_ATTACK_DRIVER="+tc.to.driver, "TALLYSTICK_ATTACK_KEY="+key)
					child.Stderr = os.Stderr
					wg.Go(func() {
						out, err := child.Output()
						var a, l int64
						if _, e := fmt.Sscan(string(out), &a, &l); err != nil || e != nil {
							t.Errorf("%v, %v: %q", err, e, out)
						}
						admitted.Add(a)
						lost.Add(l)
					})
				}
				wg.Wait()
				require.Zero(t, lost.Load(), "every answer comes in the end")
				twice := 1000 - admitted.Load()
				require.GreaterOrEqual(t, twice, int64(0))
				require.LessOrEqual(t, twice, callers*(lossy.lost.Load()-before))
				v, err := count(t, store).Peek(t.Context(), exact.Call{Key: key, Cost: 1, Policy: compile(t, yearly(1000))})
				require.NoError(t, err)
				require.Zero(t, v.Limits[0].Remaining)
			}
		})
	}
	require.Positive(t, lossy.lost.Load())
	t.Logf("%d answers were lost", lossy.lost.Load())
}

const callers = 16 // of each process

// endless is a key with a thousand times the limit, for a process that will not come to its end.
const endless = "endless"

// A process that is killed while it writes leaves nothing half written, and no lock: what it has
// charged stays charged, and another goes on from there.
func TestAKilledWriterLeavesNoLock(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts processes")
	}
	onEach(t, func(t *testing.T, e engine) {
		store, _, _ := e.open(t)
		c, p := count(t, store), compile(t, yearly(1_000_000))
		for round := range int64(3) {
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), attackChild+"="+e.dsn, "TALLYSTICK_ATTACK_DRIVER="+e.driver, "TALLYSTICK_ATTACK_KEY="+endless)
			require.NoError(t, child.Start())
			used := func() int64 {
				v, err := c.Peek(t.Context(), exact.Call{Key: endless, Cost: 1, Policy: p})
				require.NoError(t, err)
				return 1_000_000 - v.Limits[0].Remaining
			}
			before := used()
			require.Eventually(t, func() bool { return used() > before+100*(round+1) }, patient, time.Millisecond)
			require.NoError(t, child.Process.Kill())
			require.Error(t, child.Wait(), "it has not come to its end")
			var v exact.Verdict
			require.Eventually(t, func() bool { // a server may still be at its last statement
				at := used()
				var err error
				v, err = c.Take(t.Context(), exact.Call{Key: endless, Cost: 1, Policy: p})
				require.NoError(t, err)
				return 1_000_000-v.Limits[0].Remaining == at+1
			}, patient, time.Millisecond)
		}
	})
}

// attack makes 1250 attempts at a limit of 1000 from so many goroutines, each again by its ID where the answer is lost
// or the races were, and prints how many were admitted, and how many had no answer.
func attack(driver, name, key string) error {
	db, err := stdsql.Open(driver, name)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxIdleConns(16)
	dialect := sql.PostgreSQL
	if driver == "sqlite" {
		dialect = sql.SQLite
	}
	store, err := sql.Open(db, sql.Config{Dialect: dialect})
	if err != nil {
		return err
	}
	c, err := cas.New(store, cas.Config{})
	if err != nil {
		return err
	}
	limit := 1000
	if key == endless {
		limit *= 1000
	}
	p, err := exact.Compile("api", []storeless.Limit{yearly(int64(limit))})
	if err != nil {
		return err
	}
	var admitted, lost atomic.Int64
	var wg sync.WaitGroup
	for w := range callers {
		wg.Go(func() {
			for n := w; n < limit*5/4; n += callers {
				call := exact.Call{Key: key, Cost: 1, Policy: p, ID: strconv.FormatUint(rand.Uint64(), 36)}
				v, err := c.Take(context.Background(), call)
				for began := time.Now(); err != nil && time.Since(began) < patient; {
					ctx, cancel := context.WithTimeout(context.Background(), exact.IDLife/4)
					v, err = c.Take(ctx, call)
					cancel()
				}
				switch {
				case err != nil:
					lost.Add(1)
				case v.Admitted:
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	fmt.Print(admitted.Load(), " ", lost.Load())
	return nil
}
