package file_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/file"
)

func TestSecondOpenerIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counts")
	open(t, path, file.Config{})
	_, err := file.Open(path, file.Config{})
	require.ErrorIs(t, err, file.ErrInUse)
	require.EqualError(t, err, path+": file: another counter has it open; only one process can count in a file, several want a server such as exact/redis")
}

// Of many who create a file at once, one gets it, and nobody counts elsewhere.
func TestOneOfManyCreatesTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "counts")
	p := compile(t, hourly(1))
	var mu sync.Mutex
	var won []*file.Counter
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

func TestWhatIsNoCounterIsRefused(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"empty": "", "short": "x", "text": string(make([]byte, 100_000))} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := file.Open(path, file.Config{})
		require.ErrorIs(t, err, file.ErrDamaged, name)
		require.ErrorContains(t, err, "restore a copy, or remove it")
		kept, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(kept), "it is left as it was")
	}
	path := filepath.Join(dir, "other")
	db, err := bolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = file.Open(path, file.Config{})
	require.ErrorIs(t, err, file.ErrDamaged)
	require.ErrorContains(t, err, "it is not a counter's file")
	_, err = file.Open(filepath.Join(dir, "no", "such", "directory"), file.Config{})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = file.Open(path, file.Config{Keys: -1})
	require.EqualError(t, err, "Keys: must be at least 1, or 0 for 1048576, not -1")
}

// spent is a file in which the first call of each of many keys is counted, which is
// all that they have.
func spent(t *testing.T, clock *exacttest.Clock, keys int) (bytes []byte, take func(path string) (fresh int, err error)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spent")
	p := compile(t, hourly(1))
	all := func(c *file.Counter) (admitted int, err error) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for w := range 16 {
			wg.Go(func() {
				for n := w; n < keys; n += 16 {
					v, e := c.Take(context.Background(), exact.Call{Key: strconv.Itoa(n), Cost: 1, Policy: p})
					mu.Lock()
					if v.Admitted {
						admitted++
					}
					if e != nil {
						err = e
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		return admitted, err
	}
	c, err := file.Open(path, file.Config{Now: clock.Now})
	require.NoError(t, err)
	n, err := all(c)
	require.NoError(t, err)
	require.Equal(t, keys, n)
	require.NoError(t, c.Close())
	bytes, err = os.ReadFile(path)
	require.NoError(t, err)
	return bytes, func(path string) (int, error) {
		c, err := file.Open(path, file.Config{Now: clock.Now})
		if err != nil {
			return 0, err
		}
		defer c.Close()
		return all(c)
	}
}

// lastCommit is the most that may come back when the last commit is undone.
const lastCommit = 16

// TestFlippedBytes damages a file in one place after the other: it opens with what was
// counted, but perhaps for the last commit, or it is refused.
func TestFlippedBytes(t *testing.T) {
	clock := exacttest.NewClock()
	whole, take := spent(t, clock, 400)
	rng := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "flipped")
	refused, opened := 0, 0
	for range 600 {
		b := append([]byte(nil), whole...)
		at := rng.IntN(len(b))
		how := rng.IntN(3)
		switch how {
		case 0:
			b[at] ^= 1 << rng.IntN(8)
		case 1:
			b[at] ^= byte(1 + rng.IntN(255))
		case 2: // a sector that was not written, or of something else
			for i := at &^ 511; i < len(b) && i < at&^511+512; i++ {
				b[i] = byte(rng.IntN(2) * rng.IntN(256))
			}
		}
		require.NoError(t, os.WriteFile(path, b, 0o600))
		fresh, err := take(path)
		if err != nil {
			require.True(t, errors.Is(err, file.ErrDamaged) || errors.Is(err, file.ErrStopped), "flip %d at %d: %v", how, at, err)
			refused++
			continue
		}
		require.LessOrEqual(t, fresh, lastCommit, "flip %d at %d gave fresh quotas", how, at)
		opened++
	}
	t.Logf("%d refused, %d opened", refused, opened)
	require.Greater(t, refused, 50)
}

// TestPagesThatLeadBack has branches lead to themselves and to each other.
func TestPagesThatLeadBack(t *testing.T) {
	clock := exacttest.NewClock()
	whole, take := spent(t, clock, 400)
	path := filepath.Join(t.TempDir(), "circle")
	size := os.Getpagesize()
	changed := 0
	for page := 2; (page+1)*size <= len(whole); page++ {
		if whole[page*size+8] != 1 { // no branch
			continue
		}
		for element := range 3 {
			for _, to := range []int{page, 3, 5} {
				b := append([]byte(nil), whole...)
				binary.NativeEndian.PutUint64(b[page*size+16+16*element+8:], uint64(to))
				require.NoError(t, os.WriteFile(path, b, 0o600))
				if fresh, err := take(path); err != nil {
					require.ErrorIs(t, err, file.ErrDamaged)
					changed++
				} else {
					require.Zero(t, fresh)
				}
			}
		}
	}
	require.Positive(t, changed)
}

// TestTornFile cuts a file at every page and in between.
func TestTornFile(t *testing.T) {
	clock := exacttest.NewClock()
	whole, take := spent(t, clock, 400)
	path := filepath.Join(t.TempDir(), "torn")
	refused := 0
	for at := 0; at < len(whole); at += 1024 + 512*(at%3) {
		require.NoError(t, os.WriteFile(path, whole[:at], 0o600))
		fresh, err := take(path)
		if err != nil {
			require.ErrorIs(t, err, file.ErrDamaged, "cut at %d", at)
			refused++
			continue
		}
		require.LessOrEqual(t, fresh, lastCommit, "cut at %d gave fresh quotas", at)
	}
	require.Positive(t, refused)
}

// A write that fails stops the counter for good: nobody knows what the disk holds.
func TestFailedWriteStopsTheCounter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counts")
	c, err := file.Open(path, file.Config{})
	require.NoError(t, err)
	p := compile(t, hourly(1000))
	call := exact.Call{Key: "k", Cost: 1, Policy: p}
	_, err = c.Take(t.Context(), call)
	require.NoError(t, err)
	mend := failWrites(t, path)
	_, err = c.Take(t.Context(), call)
	require.ErrorIs(t, err, exact.ErrMaybeCounted)
	mend()
	for range 3 {
		_, err = c.Take(t.Context(), call)
		require.ErrorIs(t, err, file.ErrStopped)
		require.ErrorIs(t, err, exact.ErrNotCounted)
		require.NotErrorIs(t, err, exact.ErrMaybeCounted)
	}
	_, err = c.Peek(t.Context(), call)
	require.ErrorIs(t, err, file.ErrStopped)
	require.NoError(t, c.Close())
	v, err := open(t, path, file.Config{}).Take(t.Context(), call)
	require.NoError(t, err)
	require.Contains(t, []int64{997, 998}, v.Limits[0].Remaining)
}

// A disk that is slow costs a caller no more than its patience: who is under way may be
// counted, who waits is not.
func TestSlowDiskKeepsDeadlines(t *testing.T) {
	var slow atomic.Bool
	entered, release := make(chan struct{}), make(chan struct{})
	c := open(t, filepath.Join(t.TempDir(), "counts"), file.Config{Now: func() time.Time {
		if slow.Swap(false) {
			close(entered) // where the disk would be
			<-release
		}
		return time.Now()
	}})
	p := compile(t, hourly(1000))
	call := exact.Call{Key: "k", Cost: 1, Policy: p}
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
	v, err := c.Peek(t.Context(), call)
	require.NoError(t, err)
	require.Contains(t, []int64{998, 999}, v.Limits[0].Remaining)
}

// failWrites makes every write to a file fail, until mend is called.
func failWrites(t *testing.T, path string) (mend func()) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("finds the open file in /proc")
	}
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, entry := range open {
		if to, _ := os.Readlink("/proc/self/fd/" + entry.Name()); to != path {
			continue
		}
		fd, err := strconv.Atoi(entry.Name())
		require.NoError(t, err)
		saved, err := unix.Dup(fd)
		require.NoError(t, err)
		readOnly, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Dup3(readOnly, fd, unix.O_CLOEXEC))
		return func() {
			require.NoError(t, unix.Dup3(saved, fd, unix.O_CLOEXEC))
			require.NoError(t, unix.Close(saved))
			require.NoError(t, unix.Close(readOnly))
		}
	}
	require.Fail(t, "the file is not open")
	return nil
}
