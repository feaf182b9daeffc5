// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/exactkit/front"
	"github.com/tallystick/tallystick/proof/kit"
)

const faultDeadline = 50 * time.Millisecond // the default

// A mended counter is opened anew where it has stopped, as its users do.
type mended struct {
	t     *testing.T
	disk  *memDisk
	hangs atomic.Pointer[chan struct{}] // a sync, until it is closed
	now   atomic.Pointer[file.Counter]
}

// newMended opens one on a disk in memory, whose sync takes 200 µs.
func newMended(t *testing.T) *mended {
	m := &mended{t: t, disk: newMemDisk()}
	m.disk.syncs = func() {
		time.Sleep(200 * time.Microsecond)
		if c := m.hangs.Load(); c != nil {
			<-*c
		}
	}
	m.now.Store(openOn(t, m.disk, 1<<30, file.Config{}))
	return m
}

func (m *mended) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	return m.now.Load().Take(ctx, call)
}

func (m *mended) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	return m.now.Load().Peek(ctx, call)
}

func (m *mended) Refund(ctx context.Context, r exact.Receipt) error {
	return m.now.Load().Refund(ctx, r)
}

// A mishap is a passing fault of a disk under load.
type mishap struct {
	name         string
	strike, cure func(*mended)
	lasts        time.Duration // 0: some seconds. Else it is no outage: those that it meets have the policy's choice
	stops        bool          // the counter, for good
	load         bool          // what is refused is refused as load: no outage, and no fallback
	known        bool          // keys that are there are counted on
}

// passes cures it. A counter that had to stop is opened anew, and no other.
func (m *mishap) passes(c *mended) {
	m.cure(c)
	_, err := c.Take(c.t.Context(), exact.Call{Key: "k", Cost: 1, Policy: exactkit.PerYear(c.t, 100)})
	require.Equal(c.t, m.stops, errors.Is(err, file.ErrStopped), "%s: %v", m.name, err)
	if m.stops {
		require.NoError(c.t, c.now.Load().Close())
		c.now.Store(openOn(c.t, c.disk, 1<<30, file.Config{}))
	}
}

func mishaps() []mishap {
	hang := func(c *mended) {
		until := make(chan struct{})
		c.hangs.Store(&until)
	}
	thaw := func(c *mended) { close(*c.hangs.Swap(nil)) }
	fails := func(op string, err error) func(*mended) { return func(c *mended) { c.disk.fails(op, err) } }
	move := func(from, to string) func(*mended) {
		return func(c *mended) {
			c.disk.mu.Lock()
			defer c.disk.mu.Unlock()
			c.disk.names[to] = c.disk.names[from]
			delete(c.disk.names, from)
		}
	}
	well := fails("", nil)
	return []mishap{
		{name: "a sync hangs", strike: hang, cure: thaw},
		{name: "a sync takes 120ms", strike: hang, cure: thaw, lasts: 120 * time.Millisecond},
		{name: "the disk is full", strike: func(c *mended) { c.disk.holds(int64(len(c.disk.bytes(memPath)))) }, cure: func(c *mended) { c.disk.holds(0) }, load: true, known: true},
		{name: "full in mid-write", strike: fails("write", syscall.ENOSPC), cure: well, load: true},
		{name: "a quota of the disk", strike: fails("write", syscall.EDQUOT), cure: well, load: true},
		{name: "a sync fails", strike: fails("sync", syscall.EIO), cure: well, stops: true},
		{name: "a sync fails, it is full", strike: fails("sync", syscall.ENOSPC), cure: well, stops: true},
		{name: "a write fails", strike: fails("write", syscall.EIO), cure: well, stops: true},
		{name: "the file is renamed", strike: move(memPath, memPath+".away"), cure: move(memPath+".away", memPath), stops: true},
	}
}

// What befalls a disk in the middle of a load, and passes.
func TestFaults(t *testing.T) {
	c := newMended(t)
	var all []exactkit.Fault
	for _, m := range mishaps() {
		if m.lasts == 0 && !m.known { // else not every caller meets it
			all = append(all, exactkit.Fault{Name: m.name, Strike: func() { m.strike(c) }, Heal: func() { m.passes(c) }, Forgets: m.stops})
		}
	}
	// A busy machine must not look like a fault: the deadline is far above what holds in virtual time.
	exactkit.AmidALoad(t, all, time.Second, func(*testing.T) exact.Counter { return c })
}

// The same amid payers and strangers, as the middleware has it. Time is virtual.
func TestFaultsInFront(t *testing.T) {
	for _, m := range mishaps() {
		for outage, name := range front.Outages {
			kit.RunBubble(t, m.name+", "+name, func(t *testing.T) { m.inFront(t, outage) })
		}
	}
}

// A reply is one to a payer, or to a stranger.
type reply struct {
	payer    string
	at, took time.Duration // since the beginning, when it came back
	status   int
	degraded bool
}

func (m *mishap) inFront(t *testing.T, outage middleware.Outage) {
	const strikes, quota, payers = 503 * time.Millisecond, 1 << 20, 20
	lasts := m.lasts
	if lasts == 0 {
		lasts = 2531 * time.Millisecond
	}
	began, cure := time.Now(), strikes+lasts
	c := newMended(t)
	site := front.NewSite(t, c.now.Load(), outage, quota, faultDeadline)
	var mu sync.Mutex
	var replies []reply
	var wg sync.WaitGroup
	stream := func(rate time.Duration, who func(n int) string) {
		wg.Go(func() {
			for n := 0; time.Since(began) < cure+2*time.Second; n++ {
				wg.Go(func() {
					who, sent := who(n), time.Now()
					status, degraded := site.Ask(who)
					mu.Lock()
					defer mu.Unlock()
					if !strings.HasPrefix(who, "payer") {
						who = ""
					}
					replies = append(replies, reply{who, time.Since(began), time.Since(sent), status, degraded})
				})
				time.Sleep(time.Second / rate)
			}
		})
	}
	stream(50, func(n int) string { return fmt.Sprint("payer", n%payers) })
	stream(200, func(n int) string { return fmt.Sprintf("198.18.%d.%d", n/250, n%250) })
	time.Sleep(strikes)
	m.strike(c)
	time.Sleep(lasts)
	early := site.Log.Count("answers again")
	if m.passes(c); m.stops {
		site.Reopens(t, c.now.Load())
	}
	wg.Wait()

	recovered, refused, fallback := cure, 0, 0
	acknowledged, maybe := map[string]int64{}, map[string]int64{}
	for _, r := range replies {
		switch {
		case r.degraded:
			maybe[r.payer]++
		case r.status == http.StatusOK:
			acknowledged[r.payer]++
			continue
		}
		recovered = max(recovered, r.at)
		if r.status != http.StatusOK {
			refused++
			require.False(t, m.known && r.payer != "", "a payer has room")
			continue
		}
		fallback++
		require.False(t, m.load, "by the fallback, and it is load")
		require.Equal(t, middleware.FailOpen, outage)
		require.GreaterOrEqual(t, r.at, strikes)
		require.LessOrEqual(t, r.at, cure+time.Second)
	}
	before, all := p99(replies, strikes), p99(replies, 24*time.Hour)
	t.Logf("%d requests, %d refused, %d by the fallback; payers' p99 %s, before %s; well %s after the cure", len(replies), refused, fallback, all, before, recovered-cure)
	require.Positive(t, refused+fallback, "it is a fault")
	require.LessOrEqual(t, all-before, faultDeadline, "the payers' added p99")
	require.LessOrEqual(t, recovered-cure, time.Second, "recovery")
	told := 1
	if m.load || m.lasts > 0 {
		told = 0
	}
	require.Equal(t, told, site.Log.Count("does not answer"))
	require.Zero(t, early, "no all-clear before the cure")
	for range 2 {
		time.Sleep(9 * time.Second) // 18 since, and two since it was well
		site.Ask("afterwards")
	}
	require.Equal(t, told, site.Log.Count("answers again"))
	// What was answered is counted, and beside it no more than what may have been.
	for n := range payers {
		who := fmt.Sprint("payer", n)
		call := kit.Must(site.Middleware.CallFor(middleware.APIKey(who)))(t)
		used := quota - exactkit.Left(t, c, call)
		require.GreaterOrEqual(t, used, acknowledged[who], "%s: an answered count is lost", who)
		require.LessOrEqual(t, used, acknowledged[who]+maybe[who], "%s: a count of nothing", who)
	}
}

// p99 is what 99 of 100 requests of payers have taken at most, that came back until then.
func p99(replies []reply, until time.Duration) time.Duration {
	var took []time.Duration
	for _, r := range replies {
		if r.payer != "" && r.at < until {
			took = append(took, r.took)
		}
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

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
