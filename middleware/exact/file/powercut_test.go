// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

// smallSpare is so little that files are made smaller all the time.
const smallSpare = 2 << 10

var errPower = errors.New("the power is cut")

// TestPowerCut cuts the power at every kind of moment, also while a file is made smaller
// or a torn one is mended, and on disks that were full before or whose sync has failed: of what was not synced, some sectors are there and some are
// not. Whatever was answered is counted, and no more than what was under way beside it.
func TestPowerCut(t *testing.T) {
	const callers, keys, lives = 4, 12, 6
	seeds := uint64(100)
	if kit.Long() {
		seeds = 2000
	}
	p := exactkit.PerHour(t, 1<<30)
	torn, shrunk, failed, full := 0, 0, 0, 0
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 7))
		clock := exacttest.NewClock()
		disk := newMemDisk()
		answered, counted := make([]int64, keys), make([]int64, keys)
		for range lives {
			life := 1 + rng.IntN(1+rng.IntN(200))
			disk.fail = func(op, _ string) error {
				switch {
				case disk.ops >= life:
					return errPower
				case seed%2 == 0: // a good disk
				case op == "sync" && rng.IntN(50) == 0:
					failed++
					return syscall.EIO
				case (op == "write" || op == "reserve") && rng.IntN(15) == 0:
					full++
					return syscall.ENOSPC
				}
				return nil
			}
			before := disk.bytes(memPath)
			c, err := file.OpenOn(disk, memPath, smallSpare, file.Config{Now: clock.Now})
			if err != nil {
				if errors.Is(err, errPower) || !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ENOSPC) {
					require.ErrorIs(t, err, errPower, "seed %d: a crash leaves a file that opens", seed)
				}
			} else {
				var mu sync.Mutex
				var wg sync.WaitGroup
				for range callers {
					disk.mu.Lock()
					first := rng.IntN(keys)
					disk.mu.Unlock()
					wg.Go(func() {
						for n := first; ; n++ {
							_, err := c.Take(context.Background(), exact.Call{Key: strconv.Itoa(n % keys), Cost: 1, Policy: p})
							if errors.Is(err, exact.ErrFull) {
								clock.Advance(time.Second) // it is asked for room once a second
								continue
							}
							if err != nil {
								return
							}
							mu.Lock()
							answered[n%keys]++
							mu.Unlock()
						}
					})
				}
				wg.Wait()
				_ = c.Close()
			}
			if place, err := file.ReadLog(memFileOf(before), int64(len(before)), func(_, _ []byte) {}); err == nil && place.Torn > 0 {
				torn++
			}
			disk = disk.cut(rng)
			if disk.bytes(memPath+".next") != nil {
				shrunk++
			}
			if disk.bytes(memPath) == nil {
				require.Zero(t, answered[0], "seed %d: the file is gone", seed)
				continue
			}
			// What a power cut leaves is looked at on a copy: the next life must mend it itself.
			copied := newMemDisk()
			copied.put(memPath, disk.bytes(memPath))
			c, err = file.OpenOn(copied, memPath, smallSpare, file.Config{Now: clock.Now})
			require.NoError(t, err, "seed %d", seed)
			more := int64(0)
			for n := range keys {
				now := 1<<30 - exactkit.Left(t, c, exact.Call{Key: strconv.Itoa(n), Cost: 1, Policy: p})
				require.GreaterOrEqual(t, now, answered[n], "seed %d: an answered count is lost", seed)
				require.GreaterOrEqual(t, now, counted[n], "seed %d: a count that was there is lost", seed)
				more += now - answered[n]
				answered[n], counted[n] = now, now
			}
			require.LessOrEqual(t, more, int64(callers), "seed %d: more is counted than was under way", seed)
			require.NoError(t, c.Close())
		}
	}
	t.Logf("%d torn groups mended, %d files that were being made smaller; %d syncs had failed, and %d times there was no room", torn, shrunk, failed, full)
	require.Positive(t, torn)
	require.Positive(t, shrunk)
}

// A file is made smaller while calls are counted, and no goroutine is left behind.
func TestNothingRunsAfterClose(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		disk, clock := newMemDisk(), exacttest.NewClock()
		p := exactkit.PerHour(t, 1<<30)
		for range 20 {
			c := openOn(t, disk, smallSpare, file.Config{Now: clock.Now})
			var wg sync.WaitGroup
			for w := range 8 {
				wg.Go(func() {
					for n := range 100 {
						if _, err := c.Take(context.Background(), exact.Call{Key: strconv.Itoa(w * n), Cost: 1, Policy: p}); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			require.NoError(t, c.Close()) // the bubble waits for goroutines, and panics if one never ends
		}
		require.Equal(t, []string{memPath}, disk.left())
	})
}
