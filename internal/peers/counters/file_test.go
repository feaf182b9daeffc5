// SPDX-License-Identifier: Apache-2.0

package counters_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/storeless"
)

// BenchmarkFileOpen opens a file of a million keys, and reports what one takes: in memory, and
// in the file as it was written, before it is made smaller and after.
func BenchmarkFileOpen(b *testing.B) {
	const keys, callers = 1_000_000, 1024
	path := filepath.Join(b.TempDir(), "counts")
	p, err := exact.Compile("bench", []storeless.Limit{{Algorithm: storeless.FixedWindow, Quota: storeless.MaxQuota, Window: time.Hour}})
	require.NoError(b, err)
	c, err := file.Open(path, file.Config{})
	require.NoError(b, err)
	var wg sync.WaitGroup
	for w := range callers {
		wg.Go(func() {
			for n := w; n < keys; n += callers {
				v, err := c.Take(context.Background(), exact.Call{Key: "customer-" + strconv.Itoa(n), Cost: 1, Policy: p})
				if err != nil || !v.Admitted {
					b.Errorf("passed is %t, %v", v.Admitted, err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.NoError(b, c.Close())
	info, err := os.Stat(path)
	require.NoError(b, err)
	before := heap()
	b.ResetTimer()
	for range b.N {
		c, err := file.Open(path, file.Config{})
		require.NoError(b, err)
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/keys, "heap-B/key")
		require.NoError(b, c.Close())
		b.StartTimer()
	}
	b.ReportMetric(float64(info.Size())/keys, "file-B/key")
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
