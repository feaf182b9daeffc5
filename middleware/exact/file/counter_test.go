// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
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
	c := kit.Must(file.Open(path, cfg))(t)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c.(*file.Counter)
}

// openOn is open, on another disk.
func openOn(t testing.TB, disk file.Disk, spare int64, cfg file.Config) *file.Counter {
	t.Helper()
	c := kit.Must(file.OpenOn(disk, memPath, spare, cfg))(t)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestCounter(t *testing.T) {
	clock := exacttest.NewClock()
	path := filepath.Join(t.TempDir(), "one") // of all of them, one after the other
	require.NoError(t, exacttest.TestCounter(func() (exact.Counter, error) {
		return file.Open(path, file.Config{Now: clock.Now})
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
	v := kit.Must(open(t, path, file.Config{}).Peek(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p}))(t)
	require.EqualValues(t, storeless.MaxQuota-acknowledged.Load(), v.Limits[0].Remaining)
}

// A refusal writes nothing: a spent key costs no fsync, and no byte.
func TestRefusalsWriteNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counts")
	c := open(t, path, file.Config{})
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 1), ID: "a"}
	exactkit.Take(t, c, call)
	before := kit.Must(os.ReadFile(path))(t)
	for i := range 100 {
		call.ID = strconv.Itoa(i)
		require.False(t, exactkit.Take(t, c, call).Admitted)
	}
	after := kit.Must(os.ReadFile(path))(t)
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

// together has calls written in one commit: they queue behind one that is held up, and
// that is refused, so that it writes nothing.
func together(t *testing.T, path string, clock *exacttest.Clock, keys int64, names ...string) (errs []error) {
	t.Helper()
	return togetherOn(t, func(cfg file.Config) (*file.Counter, error) { return file.OpenSpare(path, 1<<30, cfg) }, clock, keys, names...)
}

func togetherOn(t *testing.T, open func(file.Config) (*file.Counter, error), clock *exacttest.Clock, keys int64, names ...string) (errs []error) {
	t.Helper()
	var hold atomic.Bool
	entered, release := make(chan struct{}), make(chan struct{})
	c := kit.Must(open(file.Config{Keys: keys, Now: func() time.Time {
		if hold.Swap(false) {
			close(entered)
			<-release
		}
		return clock.Now()
	}}))(t)
	p := exactkit.PerHour(t, 5)
	take := func(key string, cost int64) chan error {
		done := make(chan error, 1)
		go func() {
			_, err := c.Take(t.Context(), exact.Call{Key: key, Cost: cost, Policy: p})
			done <- err
		}()
		return done
	}
	hold.Store(true)
	before := take(names[0], 6)
	<-entered
	var waiting []chan error
	for i, key := range names {
		waiting = append(waiting, take(key, 1))
		require.Eventually(t, func() bool { return c.Waiting() == i+1 }, 5*time.Minute, time.Millisecond)
	}
	clock.Advance(time.Hour) // one moment is not believed, and the search for room is once a second
	close(release)
	require.NoError(t, <-before)
	for _, done := range waiting {
		errs = append(errs, <-done)
	}
	require.NoError(t, c.Close())
	return errs
}

// Of two new keys in one commit, the last place is for one.
func TestLastPlaceIsForOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counts")
	errs := together(t, path, exacttest.NewClock(), 1, "b", "c")
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], exact.ErrFull)
}

// A key that is idle, but asked for in the very commit that looks for room, stays in
// the books.
func TestKeyInUseIsNotForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counts")
	clock := exacttest.NewClock()
	require.NoError(t, together(t, path, clock, 1, "a")[0])
	clock.Advance(24 * time.Hour)
	errs := together(t, path, clock, 1, "a", "c")
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], exact.ErrFull)
	_, err := open(t, path, file.Config{Now: clock.Now}).Take(t.Context(), exact.Call{Key: "a", Cost: 1, Policy: exactkit.PerHour(t, 5)})
	require.NoError(t, err, "the books agree")
}

// The second process that creates a file does not take its name.
func TestCreateDoesNotReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counts")
	require.NoError(t, file.Create(path))
	p := exactkit.PerYear(t, 5)
	c := open(t, path, file.Config{})
	exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
	require.NoError(t, file.Create(path))
	require.NoError(t, c.Close())
	v := kit.Must(open(t, path, file.Config{}).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p}))(t)
	require.EqualValues(t, 3, v.Limits[0].Remaining)
}

// However much waits to be written, at most a megabyte and one account are written
// before a call.
func TestLargeAccountsAreNotWrittenTogether(t *testing.T) {
	clock := exacttest.NewClock()
	var large engine.Account
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.SlidingLog, Quota: 10_000, Window: time.Hour})
	for n := range 10_000 {
		require.True(t, large.Take(clock.Now().Add(time.Duration(n)*time.Second/3), &exact.Call{Key: "k", Cost: 1, Policy: p}).Admitted)
	}
	blob := exactkit.Bytes(t, &large)
	const keys, nonce = 60, 5
	require.Greater(t, keys*len(blob), 3<<20)
	b := append(file.AppendHead(nil, nonce), make([]byte, file.GroupAt-24)...)
	var names []string
	for n := range uint64(keys) {
		names = append(names, strconv.Itoa(int(n)))
		b = append(b, file.Group('S', nonce, n+1, file.AppendAccount(nil, p.AccountName(names[n]), blob))...)
	}
	size := uint64(len(b) + 4096)
	b = append(b, file.Group('E', nonce, keys+1, file.AppendNumber(file.AppendNumber(nil, 'n', keys), 'r', size))...)
	disk := newMemDisk()
	disk.put(memPath, append(b, make([]byte, int(size)-len(b))...))
	open := func(cfg file.Config) (*file.Counter, error) { return file.OpenOn(disk, memPath, 1<<30, cfg) }
	for _, err := range togetherOn(t, open, clock, 0, names...) {
		require.NoError(t, err)
	}
	require.Less(t, disk.largest, 1<<20+2*len(blob))
	require.Greater(t, disk.largest, 1<<20-2*len(blob), "but many are")
}

func TestSecondOpenerIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counts")
	open(t, path, file.Config{})
	_, err := file.Open(path, file.Config{})
	require.ErrorIs(t, err, file.ErrInUse)
	require.EqualError(t, err, path+": file: another counter has it open; only one process can count in a file, several want a server such as exact/redis")
}

// If many create a file at once, one gets it, and none counts elsewhere.
func TestOneOfManyCreatesTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "counts")
	p := exactkit.PerYear(t, 1)
	var mu sync.Mutex
	var won []engine.ArchiveCloser
	kit.Together(8, func(int) {
		c, err := file.Open(path, file.Config{})
		if err != nil {
			if !errors.Is(err, file.ErrInUse) {
				t.Error(err)
			}
			return
		}
		mu.Lock()
		defer mu.Unlock()
		won = append(won, c)
	})
	require.Len(t, won, 1)
	kit.Must(won[0].Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p}))(t)
	require.NoError(t, won[0].Close())
	v := kit.Must(open(t, path, file.Config{}).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p}))(t)
	require.False(t, v.Admitted)
	left := kit.Must(os.ReadDir(dir))(t)
	require.Len(t, left, 1, "nothing else is left behind")
}

// A disk that is slow costs a caller no more than its patience: a call under way may be counted, a
// waiting one is not.
func TestSlowDiskKeepsDeadlines(t *testing.T) {
	kit.Bubble(t, slowDisk) // a caller that waits for ever is noticed at once
}

func slowDisk(t *testing.T) {
	var slow atomic.Bool
	entered, release := make(chan struct{}), make(chan struct{})
	c := kit.Must(file.OpenOn(newMemDisk(), memPath, 1<<30, file.Config{Now: func() time.Time {
		if slow.Swap(false) {
			close(entered) // where the disk would be
			<-release
		}
		return time.Now()
	}}))(t)
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(t, 1000)}
	take := func(ctx context.Context) chan error {
		done := make(chan error, 1)
		go func() {
			_, err := c.Take(ctx, call)
			done <- err
		}()
		return done
	}
	slow.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	first := take(ctx)
	<-entered
	second, third := take(ctx), take(t.Context())
	cancel()
	require.ErrorIs(t, <-first, exact.ErrMaybeCounted)
	require.ErrorIs(t, <-second, exact.ErrNotCounted)
	close(release)
	require.NoError(t, <-third)
	require.Contains(t, []int64{998, 999}, exactkit.Left(t, c, call))
}

// A swappedDisk has something happen before a file is locked, once.
type swappedDisk struct {
	*memDisk
	before func()
}

func (d *swappedDisk) Lock(path string, f file.Handle) (bool, error) {
	if before := d.before; before != nil {
		d.before = nil
		before()
	}
	return d.memDisk.Lock(path, f)
}

// A process that waits for a file that is made smaller meanwhile, and then let go of, opens the one
// that has its name, and not the one that had it.
func TestOpenerWaitsForTheFileOfThatName(t *testing.T) {
	disk := &swappedDisk{memDisk: newMemDisk()}
	p := exactkit.PerYear(t, 5)
	take := func() int64 {
		c := openOn(t, disk, 1<<30, file.Config{})
		v := exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
		require.NoError(t, c.Close())
		return v.Limits[0].Remaining
	}
	require.EqualValues(t, 4, take())
	disk.before = func() {
		disk.put(memPath, disk.bytes(memPath)) // another file of this name
		require.EqualValues(t, 3, take())
	}
	require.EqualValues(t, 2, take())
}
