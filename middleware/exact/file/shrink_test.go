// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

func rng(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 3)) }

// settled waits until the file is not being made smaller any more.
func settled(t testing.TB, c *file.Counter) {
	t.Helper()
	require.Eventually(t, func() bool { return !c.Shrinking() }, 5*time.Minute, time.Millisecond)
}

// Idle accounts leave the file, which then is as small as those that are left.
func TestFileShrinks(t *testing.T) {
	b := newBooks(t, 64<<10)
	disk, clock, c := b.disk, b.clock, b.c
	long := exactkit.Compile(t, every...)
	exactkit.Take(t, c, exact.Call{Key: "stays", Cost: 7, Policy: long})
	for n := range 20_000 {
		require.NoError(t, b.take(strconv.Itoa(n), ""))
	}
	b.agree(c)
	large := len(disk.bytes(memPath))
	clock.Advance(2 * time.Hour)
	require.NoError(t, b.take("one", ""))
	clock.Advance(time.Hour) // one moment is not believed
	b.counts = map[string]int64{}
	for range 25_000 { // what is written looks at two
		require.NoError(t, b.take("one", ""))
	}
	settled(t, c)
	require.Greater(t, large, 1<<20)
	require.LessOrEqual(t, len(disk.bytes(memPath)), 192<<10, "what is live, twice, and some room")
	b.agree(c)
	require.NoError(t, c.Close())
	require.Equal(t, []string{memPath}, disk.left())
	c = openOn(t, disk, 64<<10, file.Config{Now: clock.Now})
	b.agree(c)
	require.EqualValues(t, 50000-7, exactkit.Peek(t, c, exact.Call{Key: "stays", Cost: 1, Policy: long}).Limits[4].Remaining)
}

// Idle accounts leave the file before a sweep has seen them in memory.
func TestIdleAccountsAreNotInTheNextFile(t *testing.T) {
	disk, clock := newMemDisk(), exacttest.NewClock()
	c := openOn(t, disk, 1<<10, file.Config{Now: clock.Now})
	take := func(key string, p *exact.Policy) {
		exactkit.Take(t, c, exact.Call{Key: key, Cost: 1, Policy: p})
	}
	for n := range 5000 {
		take(strconv.Itoa(n), exactkit.PerHour(t, 5))
	}
	clock.Advance(2 * time.Hour)
	take("0", exactkit.PerHour(t, 5))
	clock.Advance(time.Hour) // one moment is not believed
	large := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.SlidingLog, Quota: 10_000, Window: time.Hour})
	for range 900 { // of kilobytes each, after some: few of the others are looked at
		clock.Advance(time.Second)
		take("large", large)
		settled(t, c)
	}
	require.NoError(t, c.Close())
	require.Less(t, len(accountsOf(t, disk.bytes(memPath))), 100, "of 5001")
}

// The smaller file replaces the file that a link leads to, keeps its permissions, and is
// locked.
func TestShrunkFileIsTheSameToOthers(t *testing.T) {
	clock := exacttest.NewClock()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "counts"), filepath.Join(dir, "link")
	require.NoError(t, file.Create(path))
	require.NoError(t, os.Chmod(path, 0o640))
	require.NoError(t, os.Symlink("counts", link))
	first := kit.Must(os.Open(path))(t)
	defer first.Close()
	before, err := first.Stat() // of one that is open: no other can have its number
	require.NoError(t, err)
	c := kit.Must(file.OpenSpare(link, smallSpare, file.Config{Now: clock.Now}))(t)
	b := booksOf(t, nil, nil, 0, c)
	for n := range 300 {
		require.NoError(t, b.take(strconv.Itoa(n%10), ""))
	}
	settled(t, c)
	after := kit.Must(os.Lstat(path))(t)
	require.False(t, os.SameFile(before, after), "it was replaced")
	require.Equal(t, before.Mode(), after.Mode())
	to := kit.Must(os.Readlink(link))(t)
	require.Equal(t, "counts", to)
	for _, name := range []string{path, link} {
		_, err = file.Open(name, file.Config{})
		require.ErrorIs(t, err, file.ErrInUse)
	}
	b.agree(c)
	require.NoError(t, c.Close())
	b.agree(open(t, link, file.Config{Now: clock.Now}))
}

// A smaller file that cannot be made is no loss: the old one counts on, and it is tried
// again.
func TestFileThatCannotShrinkCountsOn(t *testing.T) {
	for _, op := range []string{"create", "write", "reserve", "sync", "replace"} {
		for _, err := range []error{syscall.EIO, syscall.ENOSPC} {
			t.Run(op+" "+err.Error(), func(t *testing.T) {
				b := newBooks(t, 64<<10)
				disk, c, failing, failures := b.disk, b.c, true, 0
				disk.mu.Lock()
				disk.fail = func(now, path string) error {
					if failing && now == op && (op == "replace" || strings.HasSuffix(path, ".next")) {
						failures++
						return err
					}
					return nil
				}
				disk.mu.Unlock()
				for n := range 2000 {
					require.NoError(t, b.take(strconv.Itoa(n%10), ""))
				}
				settled(t, c)
				disk.mu.Lock()
				require.Positive(t, failures)
				require.Less(t, failures, 30, "not with each call")
				failing = false
				disk.mu.Unlock()
				require.Equal(t, []string{memPath}, disk.left())
				large := len(disk.bytes(memPath))
				for n := range 2000 {
					require.NoError(t, b.take(strconv.Itoa(n%10), ""))
				}
				settled(t, c)
				require.Less(t, len(disk.bytes(memPath)), large, "it is tried again")
				b.outlive()
			})
		}
	}
}

// A file that cannot be made smaller does not grow without end: new keys are refused, and at last
// all are, by an error that says why. Once a minute it is tried again.
func TestFileThatCannotShrinkIsBounded(t *testing.T) {
	b := newBooks(t, smallSpare)
	disk, clock, c := b.disk, b.clock, b.c
	disk.fails("replace", syscall.EBUSY)
	news, err := 0, error(nil)
	for n := 0; err == nil && n < 10_000; n++ {
		settled(t, c)
		err = b.take("k", "")
		if n%50 > 0 {
			continue
		}
		if full := b.take(strconv.Itoa(n), ""); full != nil {
			news++
			require.ErrorIs(t, full, exact.ErrFull)
			require.ErrorIs(t, full, syscall.EBUSY)
			require.ErrorContains(t, full, "cannot be made smaller")
		}
	}
	require.ErrorIs(t, err, exact.ErrFull)
	require.ErrorIs(t, err, syscall.EBUSY)
	end := place(t, disk).End
	require.Positive(t, news, "new keys are refused before those that are there")
	for range 100 {
		clock.Advance(time.Second)
		require.ErrorIs(t, b.take("k", ""), exact.ErrFull)
		settled(t, c)
	}
	require.Equal(t, end, place(t, disk).End, "it does not grow")
	require.Less(t, end, int64(128<<10))
	disk.fails("replace", nil)
	for range 60 {
		clock.Advance(time.Second)
		_ = b.take("k", "")
		settled(t, c)
	}
	require.NoError(t, b.take("k", ""))
	require.NoError(t, b.take("another", ""))
	require.Less(t, place(t, disk).End, end)
}

// A new name that may not be on disk stops the counter: a power cut could bring back the
// old file, without what would be counted from then on.
func TestNameThatIsNotOnDiskStopsTheCounter(t *testing.T) {
	b := newBooks(t, smallSpare)
	b.disk.fails("syncnames", syscall.EIO)
	err := b.fills("k")
	require.ErrorIs(t, err, file.ErrStopped)
	require.ErrorIs(t, err, syscall.EIO)
}

// A file that is renamed, removed or replaced under a counter is noticed before more is
// counted in it.
func TestFileThatLosesItsNameStopsTheCounter(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"renamed":  func(path string) error { return os.Rename(path, path+".old") },
		"removed":  os.Remove,
		"replaced": func(path string) error { return os.Rename(path+".copy", path) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "counts")
			c := open(t, path, file.Config{})
			b := booksOf(t, nil, nil, 0, c)
			require.NoError(t, b.take("k", ""))
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path+".copy", whole, 0o600))
			require.NoError(t, lose(path))
			for range 2 {
				err = b.take("k", "")
				require.ErrorIs(t, err, file.ErrStopped)
				require.ErrorContains(t, err, "renamed, removed or replaced")
				require.NotErrorIs(t, err, exact.ErrMaybeCounted)
			}
			if name == "renamed" {
				_, err = file.Open(path+".old", file.Config{})
				require.ErrorIs(t, err, file.ErrInUse)
			}
			require.NoError(t, c.Close())
		})
	}
}
