// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// every has one limit of every algorithm.
var every = []storeless.Limit{
	{Name: "sliding", Quota: 5000, Window: time.Hour},
	{Name: "fixed", Algorithm: storeless.FixedWindow, Quota: 6000, Window: time.Hour},
	{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 6000, Window: time.Hour, Burst: 3000},
	{Name: "log", Algorithm: storeless.SlidingLog, Quota: 3000, Window: time.Hour},
	{Name: "day", Algorithm: storeless.RollingDay, Quota: 50000, Window: 24 * time.Hour},
}

func open(t testing.TB, path string, cfg file.Config) *file.Counter {
	t.Helper()
	c, err := file.Open(path, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c.(*file.Counter)
}

// openOn is open, on another disk.
func openOn(t testing.TB, disk file.Disk, spare int64, cfg file.Config) *file.Counter {
	t.Helper()
	c, err := file.OpenOn(disk, memPath, spare, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestCounter(t *testing.T) {
	clock := exacttest.NewClock()
	dir := t.TempDir()
	n := 0
	require.NoError(t, exacttest.TestCounter(func() (exact.Counter, error) {
		n++
		return file.Open(filepath.Join(dir, strconv.Itoa(n)), file.Config{Now: clock.Now})
	}, clock))
	// All of them in one file, one after the other.
	require.NoError(t, exacttest.TestCounter(func() (exact.Counter, error) {
		return file.Open(filepath.Join(dir, "one"), file.Config{Now: clock.Now})
	}, clock))
}

// What was counted is there after a restart, of every algorithm, and refunds work.
func TestCountsOutliveTheCounter(t *testing.T) {
	clock := exacttest.NewClock()
	path := filepath.Join(t.TempDir(), "counts")
	p := exactkit.Compile(t, every...)
	beside := memory.New(0, clock.Now)
	var receipts [2]exact.Receipt
	for round := range 8 {
		c, err := file.OpenSpare(path, int64(round%4)<<10, file.Config{Now: clock.Now}) // most are made smaller meanwhile
		require.NoError(t, err)
		if receipts[0].Policy != nil {
			require.NoError(t, c.Refund(t.Context(), receipts[0]))
			require.NoError(t, beside.Refund(t.Context(), receipts[1]))
			require.ErrorIs(t, c.Refund(t.Context(), receipts[0]), exact.ErrNoRefund)
			receipts = [2]exact.Receipt{}
		}
		for range 40 {
			clock.Advance(41 * time.Second)
			call := exact.Call{Key: "k", Cost: int64(100 + round), Policy: p}
			got := exactkit.Take(t, c, call)
			want := exactkit.Take(t, beside, call)
			require.Equal(t, want.Verdict, got.Verdict)
			if got.Admitted {
				receipts = [2]exact.Receipt{got.Receipt, want.Receipt}
			}
		}
		require.NoError(t, c.Close())
	}
}

func TestClosedCounterSaysSo(t *testing.T) {
	c := open(t, filepath.Join(t.TempDir(), "counts"), file.Config{})
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 5)}
	v := exactkit.Take(t, c, call)
	require.NoError(t, c.Close())
	_, err := c.Take(t.Context(), call)
	require.ErrorIs(t, err, file.ErrStopped)
	require.ErrorIs(t, err, exact.ErrNotCounted)
	_, err = c.Peek(t.Context(), call)
	require.ErrorIs(t, err, file.ErrStopped)
	require.ErrorIs(t, c.Refund(t.Context(), v.Receipt), file.ErrStopped)
}

// A call that waits when a counter is closed is counted, and told so.
func TestCloseWaitsForWhatIsUnderWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counts")
	p := exactkit.PerYear(t, storeless.MaxQuota)
	var acknowledged atomic.Int64
	for range 10 {
		c := open(t, path, file.Config{})
		var wg sync.WaitGroup
		var begun sync.WaitGroup
		begun.Add(20)
		for range 20 {
			wg.Go(func() {
				begun.Done()
				for {
					if _, err := c.Take(context.Background(), exact.Call{Key: "k", Cost: 1, Policy: p}); err != nil {
						return
					}
					acknowledged.Add(1)
				}
			})
		}
		begun.Wait()
		require.NoError(t, c.Close())
		wg.Wait()
	}
	v, err := open(t, path, file.Config{}).Peek(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
	require.NoError(t, err)
	require.EqualValues(t, storeless.MaxQuota-acknowledged.Load(), v.Limits[0].Remaining)
}

// A refusal writes nothing: a spent key costs no fsync, and no byte.
func TestRefusalsWriteNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counts")
	c := open(t, path, file.Config{})
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 1), ID: "a"}
	exactkit.Take(t, c, call)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := range 100 {
		call.ID = strconv.Itoa(i)
		require.False(t, exactkit.Take(t, c, call).Admitted)
	}
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// Keys that count nothing any more make room, and a file that is full says so.
func TestIdleKeysAreForgotten(t *testing.T) {
	clock := exacttest.NewClock()
	path := filepath.Join(t.TempDir(), "counts")
	c := open(t, path, file.Config{Keys: 100, Now: clock.Now})
	p := exactkit.PerHour(t, 3)
	take := func(key int) error {
		_, err := c.Take(t.Context(), exact.Call{Key: strconv.Itoa(key), Cost: 1, Policy: p})
		return err
	}
	for key := range 100 {
		require.NoError(t, take(key))
	}
	require.ErrorIs(t, take(100), exact.ErrFull)
	require.NoError(t, take(7), "a key that is there is counted")
	clock.Advance(2 * time.Hour)
	require.ErrorIs(t, take(100), exact.ErrFull, "one moment is not believed")
	clock.Advance(time.Hour)
	for key := range 100 {
		require.NoError(t, take(1000+key))
	}
	clock.Advance(2 * time.Hour)
	require.NoError(t, take(1000))
	clock.Advance(time.Hour)
	for range 60 { // what is written looks at twice as many
		require.NoError(t, take(1000))
		clock.Advance(time.Second)
	}
	for key := range 99 {
		require.NoError(t, take(2000+key))
	}
	require.ErrorIs(t, take(3000), exact.ErrFull)
	require.NoError(t, c.Close())
	open(t, path, file.Config{Now: clock.Now}) // and the books agree
}

// The file stays as large as what is live, and some room.
func TestFileDoesNotGrowForever(t *testing.T) {
	disk, clock := newMemDisk(), exacttest.NewClock()
	c := openOn(t, disk, 64<<10, file.Config{Now: clock.Now})
	p := exactkit.PerHour(t, 3)
	most := 0
	for n := range 40_000 {
		exactkit.Take(t, c, exact.Call{Key: strconv.Itoa(n), Cost: 1, Policy: p})
		if n%50 == 0 {
			clock.Advance(time.Minute)
		}
		if n%1000 == 0 {
			settled(t, c)
			most = max(most, len(disk.bytes(memPath)))
		}
	}
	require.LessOrEqual(t, most, 2<<20, "at most 12,000 keys are kept at a time, of 40,000")
}

// Package middleware waits as long by default.
func TestDeadline(t *testing.T) {
	c := open(t, filepath.Join(t.TempDir(), "counts"), file.Config{})
	require.Equal(t, 250*time.Millisecond, c.Deadline())
}

// A folder is the program's to make: a typing error must not count in a new one.
func TestAFolderThatIsMissingIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "counts")
	_, err := file.Open(path, file.Config{})
	require.ErrorContains(t, err, path+": make its folder first: ")
}
