// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
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
	crashFails = "TALLYSTICK_CRASH_FAILS" // the disk does, now and then
)

// TestMain makes this test binary the process that is killed, when it is told so.
func TestMain(m *testing.M) {
	if path := os.Getenv(crashChild); path != "" {
		fmt.Println("failed:", countUntilKilled(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// countUntilKilled counts from 16 goroutines, and says of each admitted call, after it
// was answered, its key, and which calls are uncertain. If the disk fails, the counter
// is opened again, as users do.
func countUntilKilled(path string) error {
	disk := file.SystemDisk()
	if os.Getenv(crashFails) != "" {
		disk = &failingDisk{disk}
	}
	c := &reopened{open: func() (*file.Counter, error) { return file.OpenOn(disk, path, 64<<10, file.Config{}) }}
	p, err := exact.Compile("api", crashLimits)
	if err != nil {
		return err
	}
	errs := make(chan error)
	for range 16 {
		go func() {
			for {
				counter, err := c.counter()
				if err != nil {
					errs <- err
					return
				}
				key := rand.IntN(1 + rand.IntN(crashKeys)) // some reach their limit, some do not
				v, err := counter.Take(context.Background(), exact.Call{Key: strconv.Itoa(key), Cost: 1, Policy: p, ID: strconv.FormatUint(rand.Uint64(), 36)})
				switch { // one write each: whole, or not at all
				case v.Admitted:
					fmt.Printf("%d\n", key)
				case err == nil:
				case errors.Is(err, exact.ErrFull):
					fmt.Println("full")
				case errors.Is(err, exact.ErrMaybeCounted):
					fmt.Printf("maybe %d\n", key)
					c.stopped(counter)
				case errors.Is(err, file.ErrStopped):
					c.stopped(counter)
				default:
					errs <- err
					return
				}
			}
		}()
	}
	return <-errs
}

// A reopened counter is opened when it is wanted and has stopped.
type reopened struct {
	open func() (*file.Counter, error)

	mu  sync.Mutex
	now *file.Counter
}

// counter returns one that has not stopped. A disk that fails meanwhile says so, and is
// asked again.
func (r *reopened) counter() (*file.Counter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.now == nil {
		c, err := r.open()
		switch {
		case err == nil:
			r.now = c
		case errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC):
			fmt.Println("refused")
		default:
			return nil, err
		}
	}
	return r.now, nil
}

func (r *reopened) stopped(c *file.Counter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == c {
		r.now = nil
		_ = c.Close()
		fmt.Println("opened anew")
	}
}

// A failingDisk fails now and then: a sync does, or there is no room in the middle of a
// write or when some is asked for.
type failingDisk struct{ file.Disk }

type failingFile struct{ file.Handle }

func failingOf(f file.Handle, err error) (file.Handle, error) {
	if f != nil {
		f = failingFile{f}
	}
	return f, err
}

// wellOf returns the file behind one that fails.
func wellOf(f file.Handle) file.Handle {
	if f, ok := f.(failingFile); ok {
		return f.Handle
	}
	return f
}

func (d *failingDisk) Open(path string) (file.Handle, error) { return failingOf(d.Disk.Open(path)) }

func (d *failingDisk) Create(path string, like file.Handle) (file.Handle, error) {
	return failingOf(d.Disk.Create(path, wellOf(like)))
}

func (d *failingDisk) Replace(now, next file.Handle, from, to string) (file.Handle, error) {
	return failingOf(d.Disk.Replace(wellOf(now), wellOf(next), from, to))
}

func (d *failingDisk) Same(path string, f file.Handle) (bool, error) {
	return d.Disk.Same(path, wellOf(f))
}

func (d *failingDisk) Lock(path string, f file.Handle) (bool, error) {
	return d.Disk.Lock(path, wellOf(f))
}

func (f failingFile) Sync() error {
	if rand.IntN(40) == 0 {
		return syscall.EIO
	}
	return f.Handle.Sync()
}

func (f failingFile) Reserve(from, to int64) error {
	if rand.IntN(8) == 0 {
		return syscall.ENOSPC
	}
	return f.Handle.Reserve(from, to)
}

func (f failingFile) WriteAt(b []byte, at int64) (int, error) {
	if rand.IntN(20) == 0 {
		n, err := f.Handle.WriteAt(b[:len(b)/2], at)
		return n, errors.Join(err, syscall.ENOSPC)
	}
	return f.Handle.WriteAt(b, at)
}

var crashLimits = []storeless.Limit{{Algorithm: storeless.FixedWindow, Quota: crashQuota, Window: 365 * 24 * time.Hour}}

// TestKilled kills the process at random moments, and opens the file again each time:
// whatever was answered is counted, and never more pass than the limit. That holds where
// the disk is full now and then, and where a sync fails.
func TestKilled(t *testing.T) {
	for name, fails := range map[string]string{"a good disk": "", "a disk that fails": "1"} {
		t.Run(name, func(t *testing.T) { killed(t, fails) })
	}
}

func killed(t *testing.T, fails string) {
	path := filepath.Join(t.TempDir(), "counts")
	acknowledged := make([]int, crashKeys)
	maybe := 0
	said := map[string]int{}
	p := exactkit.Compile(t, crashLimits...)
	for n := range crashes() {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), crashChild+"="+path, crashFails+"="+fails)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		timer := time.AfterFunc(time.Duration(rand.IntN(int(200*time.Millisecond))), func() { _ = child.Process.Kill() })
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			line := lines.Text()
			require.False(t, strings.HasPrefix(line, "failed"), line)
			if key, err := strconv.Atoi(line); err == nil {
				acknowledged[key]++
			} else {
				word, _, _ := strings.Cut(line, " ")
				said[word]++
			}
			if rand.IntN(150) == 0 {
				_ = child.Process.Kill() // in the middle of work, for certain
			}
		}
		require.Error(t, child.Wait(), "it was killed")
		timer.Stop()
		maybe = said["maybe"] + 16*(n+1)

		c, err := file.Open(path, file.Config{})
		require.NoError(t, err, "crash %d: the file opens", n)
		total := 0
		for key, acks := range acknowledged {
			counted := crashQuota - int(exactkit.Left(t, c, exact.Call{Key: strconv.Itoa(key), Cost: 1, Policy: p}))
			require.GreaterOrEqual(t, counted, acks, "crash %d: an acknowledged count is lost", n)
			require.LessOrEqual(t, acks, crashQuota)
			total += counted - acks
		}
		require.LessOrEqual(t, total, maybe, "crash %d: more is counted than was under way", n)
		require.NoError(t, c.Close())
	}
	t.Logf("%d acknowledged, in %d lives; %v", sum(acknowledged), crashes(), said)
	if fails == "" {
		require.Empty(t, said)
	}
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}
