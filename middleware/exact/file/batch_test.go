// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

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
	c, err := open(file.Config{Keys: keys, Now: func() time.Time {
		if hold.Swap(false) {
			close(entered)
			<-release
		}
		return clock.Now()
	}})
	require.NoError(t, err)
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

// Who comes second to create a file does not take its name.
func TestCreateDoesNotReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counts")
	require.NoError(t, file.Create(path))
	p := exactkit.PerYear(t, 5)
	c := open(t, path, file.Config{})
	exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
	require.NoError(t, file.Create(path))
	require.NoError(t, c.Close())
	v, err := open(t, path, file.Config{}).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
	require.NoError(t, err)
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
