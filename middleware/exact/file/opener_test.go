// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

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
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
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
	}
	wg.Wait()
	require.Len(t, won, 1)
	_, err := won[0].Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
	require.NoError(t, err)
	require.NoError(t, won[0].Close())
	v, err := open(t, path, file.Config{}).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
	require.NoError(t, err)
	require.False(t, v.Admitted)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing else is left behind")
}

// A disk that is slow costs a caller no more than its patience: who is under way may be
// counted, who waits is not.
func TestSlowDiskKeepsDeadlines(t *testing.T) {
	kit.Bubble(t, slowDisk) // who waits for ever is noticed at once
}

func slowDisk(t *testing.T) {
	var slow atomic.Bool
	entered, release := make(chan struct{}), make(chan struct{})
	c, err := file.OpenOn(newMemDisk(), memPath, 1<<30, file.Config{Now: func() time.Time {
		if slow.Swap(false) {
			close(entered) // where the disk would be
			<-release
		}
		return time.Now()
	}})
	require.NoError(t, err)
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

// Who waits for a file that is made smaller meanwhile, and then let go of, opens the one
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
