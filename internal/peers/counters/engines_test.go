// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/peers"
)

// open opens a counter, or skips where its server is missing.
func open(tb testing.TB, c Counter, dir string) *Opened {
	tb.Helper()
	o, err := c.Open(dir)
	if errors.Is(err, peers.ErrNoRedis) && os.Getenv("TALLYSTICK_REQUIRE") != "1" {
		tb.Skip(err)
	}
	require.NoError(tb, err)
	return o
}

// Every counter takes many calls at once, and those with files are opened again as they
// were left. A server says what it costs.
func TestEveryCounterCounts(t *testing.T) {
	for _, c := range All() {
		t.Run(c.Name, func(t *testing.T) {
			dir := t.TempDir()
			for range 2 {
				o := open(t, c, dir)
				require.Equal(t, c.Redis, o.Server != nil)
				require.NoError(t, first(o, []string{"a", "b", "c", "d", "e"}, 2))
				var group sync.WaitGroup
				for i := range 16 {
					group.Go(func() {
						passed, err := o.Take(string(rune('a' + i%5)))
						if err != nil || !passed {
							t.Errorf("passed is %t, %v", passed, err)
						}
					})
				}
				group.Wait()
				if o.Server != nil {
					cpu, err := o.Server.CPU()
					if !errors.Is(err, errors.ErrUnsupported) {
						require.NoError(t, err)
						require.Positive(t, cpu)
					}
					bytes, err := o.Server.Bytes()
					require.NoError(t, err)
					require.Positive(t, bytes)
				}
				require.NoError(t, o.Close())
			}
		})
	}
}

// What grouped writers have taken together is all there: the number in the row is that
// of the calls.
func TestGroupedWritersCountAll(t *testing.T) {
	dir := t.TempDir()
	o, err := openSQLiteGrouped(dir)
	require.NoError(t, err)
	const callers, calls = 20, 10
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range calls {
				if passed, err := o.Take("a"); err != nil || !passed {
					t.Errorf("passed is %t, %v", passed, err)
				}
			}
		})
	}
	group.Wait()
	require.NoError(t, o.Close())
	db, stmt, err := openSQLite(dir)
	require.NoError(t, err)
	var n int
	require.NoError(t, db.QueryRow("SELECT sum(n) FROM counts").Scan(&n))
	require.Equal(t, callers*calls, n)
	require.NoError(t, errors.Join(stmt.Close(), db.Close()))
}

// BenchmarkCounter is for profiles; the report in cmd/report is for figures.
func BenchmarkCounter(b *testing.B) {
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = fmt.Sprint("customer-", i)
	}
	for _, c := range All() {
		b.Run(c.Name, func(b *testing.B) {
			o := open(b, c, b.TempDir())
			b.Cleanup(func() { require.NoError(b, o.Close()) })
			require.NoError(b, first(o, keys, 128))
			for _, n := range []int{1, 16, 128} {
				for _, l := range []load{{keys[:1], n}, {keys, n}} {
					b.Run(fmt.Sprintf("keys=%d/callers=%d", len(l.keys), n), func(b *testing.B) {
						for b.Loop() {
							s, err := l.slice(o, 100*time.Millisecond)
							require.NoError(b, err)
							b.ReportMetric(float64(s.n)/s.wall.Seconds(), "calls/s")
							b.ReportMetric(float64(s.quantile(0.99))/1e3, "p99-µs")
						}
					})
				}
			}
		})
	}
}
