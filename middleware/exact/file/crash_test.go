// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
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
	"github.com/tallystick/tallystick/storeless"
)

// crashes is how often the counter is killed.
func crashes() int {
	if kit.Long() { // as "make long" does
		return 100
	}
	return 5
}

const (
	crashKeys  = 200
	crashQuota = 200
	crashChild = "TALLYSTICK_CRASH_FILE"
)

// TestMain makes this test binary the process that is killed, when it is told so.
func TestMain(m *testing.M) {
	if path := os.Getenv(crashChild); path != "" {
		fmt.Println("failed:", countUntilKilled(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// countUntilKilled counts from 16 goroutines, and says of each admitted call, after it was answered, its key.
func countUntilKilled(path string) error {
	c, err := file.OpenSpare(path, 64<<10, file.Config{})
	if err != nil {
		return err
	}
	p, err := exact.Compile("api", crashLimits)
	if err != nil {
		return err
	}
	errs := make(chan error)
	for range 16 {
		go func() {
			for {
				key := rand.IntN(1 + rand.IntN(crashKeys)) // some reach their limit, some do not
				v, err := c.Take(context.Background(), exact.Call{Key: strconv.Itoa(key), Cost: 1, Policy: p, ID: strconv.FormatUint(rand.Uint64(), 36)})
				if err != nil {
					errs <- err
					return
				}
				if v.Admitted { // one write each: whole, or not at all
					fmt.Printf("%d\n", key)
				}
			}
		}()
	}
	return <-errs
}

var crashLimits = []storeless.Limit{{Algorithm: storeless.FixedWindow, Quota: crashQuota, Window: 365 * 24 * time.Hour}}

// TestKilled kills the process at random moments, and opens the file again each time:
// whatever was answered is counted, and never more pass than the limit. What a disk does that fails is in TestPowerCut.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counts")
	acknowledged := make([]int, crashKeys)
	p := exactkit.Compile(t, crashLimits...)
	for n := range crashes() {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), crashChild+"="+path)
		out := kit.Must(child.StdoutPipe())(t)
		require.NoError(t, child.Start())
		timer := time.AfterFunc(time.Duration(rand.IntN(int(200*time.Millisecond))), func() { _ = child.Process.Kill() })
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			key, err := strconv.Atoi(lines.Text())
			require.NoError(t, err)
			acknowledged[key]++
			if rand.IntN(150) == 0 {
				_ = child.Process.Kill() // in the middle of work, for certain
			}
		}
		require.Error(t, child.Wait(), "it was killed")
		timer.Stop()

		c, err := file.Open(path, file.Config{})
		require.NoError(t, err, "crash %d: the file opens", n)
		more := 0
		for key, acks := range acknowledged {
			counted := crashQuota - int(exactkit.Left(t, c, exact.Call{Key: strconv.Itoa(key), Cost: 1, Policy: p}))
			require.GreaterOrEqual(t, counted, acks, "crash %d: an acknowledged count is lost", n)
			require.LessOrEqual(t, acks, crashQuota)
			more += counted - acks
		}
		require.LessOrEqual(t, more, 16*(n+1), "crash %d: more is counted than was under way", n)
		require.NoError(t, c.Close())
	}
}

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
			kit.Together(8, func(w int) {
				for n := range 100 {
					if _, err := c.Take(context.Background(), exact.Call{Key: strconv.Itoa(w * n), Cost: 1, Policy: p}); err != nil {
						t.Error(err)
						return
					}
				}
			})
			require.NoError(t, c.Close()) // the bubble waits for goroutines, and panics if one never ends
		}
		require.Equal(t, []string{memPath}, disk.left())
	})
}

// without returns what a file counts when zeros stand in a part of it, or nil if it is to be
// refused. Zeros cannot be told from what was never written: where they take all that is
// from a group to the end, or a part of the last group, the file opens without that. That is
// all that they can do.
func (f *countedFile) without(from, to int) map[string]string {
	end := func(i int) int64 {
		if i+1 < len(f.groups) {
			return f.groups[i+1]
		}
		return f.place.End
	}
	first, last := 0, len(f.groups)-1
	for first < last && end(first) <= int64(from) {
		first++
	}
	switch {
	case int64(from) >= f.place.End:
		return f.want
	case first >= f.logged && (first == last || int64(to) >= f.place.End):
		return f.before[first]
	}
	return nil
}

// TestZeros writes zeros over what is on disk, as one that has lost a sector or a page, or
// has never written it, though it said so. No group is missing from what opens, if a later
// one is there or was begun: wherever groups lie in sectors.
func TestZeros(t *testing.T) {
	for at := 0; at < 512; at += 8 {
		f := lay(t, layout{seed: uint64(at), keys: 40, few: at / 8 % 4, at: at})
		check := func(from, to int) {
			b := append([]byte(nil), f.bytes...)
			clear(b[from:to])
			want := f.without(from, to)
			_, accounts, err := read(b)
			if want == nil {
				require.ErrorIs(t, err, file.ErrDamaged, "zeros from %d to %d; groups at %d", from, to, f.groups)
				return
			}
			require.NoError(t, err, "zeros from %d to %d; groups at %d", from, to, f.groups)
			require.Equal(t, want, accounts, "zeros from %d to %d; groups at %d", from, to, f.groups)
		}
		for _, size := range []int{512, 4096} {
			for from := 0; from < int(f.place.End); from += size {
				check(from, from+size)
			}
			for _, from := range f.groups { // as the sector was before that group
				check(int(from), (int(from)+size)/size*size)
			}
		}
	}
}

// TestTornGroupBehindZeros begins a group behind the last; a crash leaves some of its
// sectors. All that was on disk before is there, whichever they are; and it is refused if a
// sector of that is lost, for what was begun behind it shows that it was there.
func TestTornGroupBehindZeros(t *testing.T) {
	for at := 0; at < 512; at += 8 {
		f := lay(t, layout{seed: uint64(at), keys: 20, few: at / 8 % 4, at: at})
		torn := file.Group('L', f.nonce, uint64(len(f.groups)+1), file.AppendAccount(nil, "torn", bytes.Repeat([]byte{0x85}, 1200)))
		end := int(f.place.End)
		sectors := (end+len(torn)-1)/512 - end/512 + 1
		for some := range 1 << sectors {
			b := append([]byte(nil), f.bytes...)
			for i := range sectors {
				if from, to := max(end, (end/512+i)*512), min((end/512+i+1)*512, end+len(torn)); some>>i&1 == 1 {
					copy(b[from:to], torn[from-end:])
				}
			}
			place, accounts, err := read(b)
			require.NoError(t, err, "sectors %b of a group at %d", some, end)
			if some == 1<<sectors-1 {
				require.EqualValues(t, end+len(torn), place.End)
				delete(accounts, "torn")
			} else {
				require.EqualValues(t, end, place.End)
			}
			require.Equal(t, f.want, accounts)
			if some == 0 {
				continue
			}
			for from := int(f.groups[len(f.groups)-2-f.few]) / 512 * 512; from+512 <= end; from += 512 {
				lost := append([]byte(nil), b...)
				clear(lost[from : from+512])
				_, _, err := read(lost)
				require.ErrorIs(t, err, file.ErrDamaged, "sector %d lost before sectors %b of a group at %d", from/512, some, end)
			}
		}
	}
}
