package counters_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/storeless"
)

// take counts one for a key and reports whether it passes.
type take func(key string) (bool, error)

// engines are those that need no server, by name. Each is opened for one benchmark.
var engines = []struct {
	name string
	open func(*testing.B) take
}{
	{"ours/memory", func(b *testing.B) take { return ours(b, exact.NewMemory(0, nil)) }},
	{"ours/file", func(b *testing.B) take {
		c, err := file.Open(filepath.Join(b.TempDir(), "counts"), file.Config{})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, c.Close()) })
		return ours(b, c)
	}},
	{"bbolt/update", openBboltUpdate},
	{"bbolt/batch", openBboltBatch},
	{"sqlite/full", openSQLite},
}

func ours(b *testing.B, c exact.Counter) take {
	p, err := exact.Compile("bench", []storeless.Limit{{Algorithm: storeless.FixedWindow, Quota: storeless.MaxQuota, Window: time.Hour}})
	require.NoError(b, err)
	return func(key string) (bool, error) {
		v, err := c.Take(context.Background(), exact.Call{Key: key, Cost: 1, Policy: p})
		return v.Admitted, err
	}
}

func BenchmarkEmbedded(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		for _, callers := range []int{1, 16, 128} {
			for _, e := range engines {
				b.Run(fmt.Sprintf("keys=%d/callers=%d/%s", keys, callers, e.name), func(b *testing.B) {
					run(b, callers, keys, e.open(b))
				})
			}
		}
	}
}

// run has so many callers ask, one call each at a time, and reports what a call takes.
func run(b *testing.B, callers, keys int, take take) {
	names := make([]string, keys)
	for i := range names {
		names[i] = "customer-" + strconv.Itoa(i)
	}
	took := make([][]time.Duration, callers)
	var wg sync.WaitGroup
	b.ResetTimer()
	for c := range callers {
		wg.Go(func() {
			for i := c; i < b.N; i += callers {
				began := time.Now()
				passed, err := take(names[i*7919%keys])
				took[c] = append(took[c], time.Since(began))
				if err != nil || !passed {
					b.Errorf("passed is %t, %v", passed, err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(all[len(all)*99/100].Nanoseconds())/1e3, "p99-µs")
}
