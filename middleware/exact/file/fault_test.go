// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"errors"
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
)

// A books keeps what a counter has answered.
type books struct {
	t      *testing.T
	disk   *memDisk
	clock  *exacttest.Clock
	spare  int64
	c      *file.Counter
	p      *exact.Policy
	counts map[string]int64
}

// newBooks opens a counter on a disk of its own, whose file is made smaller when it is larger than its
// accounts by spare bytes.
func newBooks(t *testing.T, spare int64) *books {
	t.Helper()
	disk, clock := newMemDisk(), exacttest.NewClock()
	return booksOf(t, disk, clock, spare, openOn(t, disk, spare, file.Config{Now: clock.Now}))
}

func booksOf(t *testing.T, disk *memDisk, clock *exacttest.Clock, spare int64, c *file.Counter) *books {
	return &books{t, disk, clock, spare, c, exactkit.PerHour(t, 1<<30), map[string]int64{}}
}

// take counts once, and notes it if it was counted.
func (b *books) take(key, id string) error {
	v, err := b.c.Take(b.t.Context(), exact.Call{Key: key, Cost: 1, Policy: b.p, ID: id})
	if err == nil {
		require.True(b.t, v.Admitted)
		if !v.Replayed {
			b.counts[key]++
		}
	}
	return err
}

// agree compares a counter with what was answered.
func (b *books) agree(c *file.Counter) {
	b.t.Helper()
	for key, n := range b.counts {
		require.Equal(b.t, 1<<30-n, exactkit.Left(b.t, c, exact.Call{Key: key, Cost: 1, Policy: b.p}), key)
	}
}

// fills counts until that fails.
func (b *books) fills(key string) (err error) {
	for n := 0; err == nil && n < 10_000; n++ {
		err = b.take(key, "")
	}
	return err
}

// outlive closes the counter, and compares one that is opened again.
func (b *books) outlive() {
	b.t.Helper()
	require.NoError(b.t, b.c.Close())
	b.c = openOn(b.t, b.disk, b.spare, file.Config{Now: b.clock.Now})
	b.agree(b.c)
	require.NoError(b.t, b.c.Close())
}

// A disk that is full refuses new keys, while those that are there are counted in the
// room that was kept for them; when that is used too they are refused, as load and not as
// a failure; and all are counted again when there is room.
func TestFullDisk(t *testing.T) {
	b := newBooks(t, 1<<30)
	disk, clock, c := b.disk, b.clock, b.c
	disk.capacity = 1 << 19
	n, err := 0, error(nil)
	for ; err == nil && n < 100_000; n++ {
		err = b.take(strconv.Itoa(n), "")
	}
	require.ErrorIs(t, err, exact.ErrFull)
	disk.holds(1 << 20)
	require.ErrorIs(t, b.take("new", ""), exact.ErrFull, "it is asked once a second")
	clock.Advance(time.Second)
	require.NoError(t, b.take(strconv.Itoa(n), ""))
	err = nil
	for ; err == nil && n < 100_000; n++ {
		err = b.take(strconv.Itoa(n), "")
	}
	require.ErrorIs(t, err, exact.ErrFull)
	require.ErrorIs(t, err, exact.ErrNotCounted)
	require.ErrorContains(t, err, "no room on the disk")
	require.Greater(t, n, 3000)
	known, before := 0, disk.reserves
	for err = nil; err == nil && known < 100_000; known++ {
		require.ErrorIs(t, b.take("new", ""), exact.ErrFull, "while others are counted")
		err = b.take(strconv.Itoa(known%1000), "")
	}
	require.ErrorIs(t, err, exact.ErrFull)
	require.Greater(t, known, 500, "room is kept for keys that are there")
	require.LessOrEqual(t, disk.reserves-before, 2, "the disk is asked once a second, and by calls without room")
	b.agree(c)
	for range 3 {
		require.ErrorIs(t, b.take("7", "lost"), exact.ErrFull)
		require.ErrorIs(t, b.take("new", "too"), exact.ErrFull)
		clock.Advance(time.Second)
	}
	disk.holds(4 << 20)
	clock.Advance(time.Second)
	require.NoError(t, b.take("7", "lost"), "it recovers by itself")
	require.NoError(t, b.take("7", "lost"))
	require.NoError(t, b.take("new", "too"))
	b.agree(c)
	b.outlive()
}

// A file system without room kept in place, such as one that copies on write, may say so in the
// middle of a write. Then nothing was counted, also after a power cut at any moment.
func TestFullDiskInMidWrite(t *testing.T) {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		b := newBooks(t, 1<<30)
		disk, clock, c := b.disk, b.clock, b.c
		for round := range 10 {
			// One half of a group of some sectors gets through.
			disk.fails("write", full)
			kit.Together(64, func(n int) {
				_, err := c.Take(t.Context(), exact.Call{Key: strconv.Itoa(n), Cost: 1, Policy: b.p, ID: "x"})
				if !errors.Is(err, exact.ErrFull) {
					t.Error(err)
				}
			})
			after := openOn(t, disk.cut(rng(round)), 1<<30, file.Config{Now: clock.Now})
			b.agree(after)
			require.NoError(t, after.Close())
			disk.fails("write", nil)
			require.NoError(t, b.take("1", strconv.Itoa(round)))
			b.agree(c)
		}
		b.outlive()
	}
}

// What fails for good: a sync, of what was written or of room that was made, whatever it
// says; and a write for another reason than want of room.
func TestFailureStopsTheCounter(t *testing.T) {
	for name, test := range map[string]struct {
		after, op string // after any
		err       error
	}{
		"sync":                 {"", "sync", syscall.EIO},
		"sync, and it is full": {"", "sync", syscall.ENOSPC},
		"sync of room":         {"reserve", "sync", syscall.ENOSPC},
		"write":                {"", "write", syscall.EIO},
		"reserve":              {"", "reserve", syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t, 1<<30)
			disk, clock, c := b.disk, b.clock, b.c
			require.NoError(t, b.take("k", ""))
			failed, last := false, ""
			disk.fail = func(op, _ string) error {
				before := last
				last = op
				if op != test.op || failed || test.after != "" && test.after != before {
					return nil
				}
				failed = true // once: the next would succeed
				return test.err
			}
			err := b.fills("k")
			require.ErrorIs(t, err, exact.ErrMaybeCounted)
			require.ErrorIs(t, err, test.err)
			require.NotErrorIs(t, err, exact.ErrFull)
			for range 3 {
				err := b.take("k", "")
				require.ErrorIs(t, err, file.ErrStopped)
				require.ErrorIs(t, err, test.err)
				require.ErrorIs(t, err, exact.ErrNotCounted)
				require.NotErrorIs(t, err, exact.ErrMaybeCounted)
				clock.Advance(time.Second)
			}
			_, err = c.Peek(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: b.p})
			require.ErrorIs(t, err, file.ErrStopped)
			require.NoError(t, c.Close())
			c = openOn(t, disk, 1<<30, file.Config{Now: clock.Now})
			require.Contains(t, []int64{b.counts["k"], b.counts["k"] + 1}, 1<<30-exactkit.Left(t, c, exact.Call{Key: "k", Cost: 1, Policy: b.p}))
			require.NoError(t, c.Close())
		})
	}
}

// Room that was used up to the last byte, and then more: the file is refused when it is cut
// where the room once ended, because a group goes across.
func TestNoGroupBeginsWhereRoomEnded(t *testing.T) {
	b := newBooks(t, 1<<30)
	disk, clock, c := b.disk, b.clock, b.c
	disk.capacity = 64 << 10
	var names []string // of all lengths: one takes what is left
	for n := range 100 {
		names = append(names, strings.Repeat("k", 1+2*n))
		require.NoError(t, b.take(names[n], ""))
	}
	for err := error(nil); err == nil; {
		err = b.take(names[0], "")
		if len(disk.bytes(memPath))-int(place(t, disk).End) < 200 {
			break
		}
	}
	for n := range names {
		_ = b.take(names[len(names)-1-n], "")
	}
	once := len(disk.bytes(memPath))
	require.Less(t, int64(once)-place(t, disk).End, int64(200))
	disk.holds(1 << 20)
	clock.Advance(time.Second)
	require.NoError(t, b.take(names[0], ""))
	require.NoError(t, c.Close())
	whole := disk.bytes(memPath)
	require.Greater(t, len(whole), once)
	_, err := file.ReadLog(memFileOf(whole[:once]), int64(once), func(_, _ []byte) {})
	require.ErrorIs(t, err, file.ErrDamaged)
}

func place(t *testing.T, disk *memDisk) file.Place {
	t.Helper()
	place, _, err := read(disk.bytes(memPath))
	require.NoError(t, err)
	return place
}
