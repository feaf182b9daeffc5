// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
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
	front.Of(t, c, all[:1])
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
		call, err := site.Middleware.CallFor(middleware.APIKey(who))
		require.NoError(t, err)
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

func TestRefusalsHearOfWhatIsChangedElsewhere(t *testing.T) {
	front.Elsewhere(t, open(t, filepath.Join(t.TempDir(), "counts"), file.Config{}), nil)
}
