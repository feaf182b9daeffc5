// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/file"
)

const (
	faultDeadline = 50 * time.Millisecond // the default
	faultStrikes  = 503 * time.Millisecond
	payers        = 20
)

// A mishap is what befalls a disk in the middle of a load, and passes.
type mishap struct {
	strike, cure func(*mishapDisk)
	lasts        time.Duration
	stops        bool // the counter, for good: it is opened anew
	load         bool // what is refused is refused as load: no outage, and no fallback
	brief        bool // no outage: those that it meets have the policy's choice
	known        bool // keys that are there are counted on
}

// A mishapDisk is a disk in memory of which a sync takes 200 µs.
type mishapDisk struct {
	*memDisk
	hangs atomic.Pointer[chan struct{}] // until it is closed
	fails atomic.Pointer[func(op string) error]
}

func newMishapDisk() *mishapDisk {
	d := &mishapDisk{memDisk: newMemDisk()}
	d.syncs = func() {
		time.Sleep(200 * time.Microsecond)
		if hangs := d.hangs.Load(); hangs != nil {
			<-*hangs
		}
	}
	d.fail = func(op, _ string) error {
		if fails := d.fails.Load(); fails != nil {
			return (*fails)(op)
		}
		return nil
	}
	return d
}

func (d *mishapDisk) hang() {
	c := make(chan struct{})
	d.hangs.Store(&c)
}

func (d *mishapDisk) thaw() { close(*d.hangs.Swap(nil)) }

// failing has operations of a name fail.
func failing(op string, err error) func(*mishapDisk) {
	return func(d *mishapDisk) {
		fails := func(now string) error {
			if now == op {
				return err
			}
			return nil
		}
		d.fails.Store(&fails)
	}
}

func heal(d *mishapDisk) { d.fails.Store(nil) }

func room(bytes int64) func(*mishapDisk) {
	return func(d *mishapDisk) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.capacity = 0; bytes >= 0 {
			d.capacity = d.used() + bytes
		}
	}
}

// What befalls a disk in the middle of a load of payers and strangers, as the middleware
// has it. Time is virtual.
func TestFaults(t *testing.T) {
	const long = 2531 * time.Millisecond
	for name, m := range map[string]mishap{
		"a sync hangs":             {strike: (*mishapDisk).hang, cure: (*mishapDisk).thaw, lasts: long},
		"a sync takes 120ms":       {strike: (*mishapDisk).hang, cure: (*mishapDisk).thaw, lasts: 120 * time.Millisecond, brief: true},
		"the disk is full":         {strike: room(0), cure: room(-1), lasts: long, load: true, known: true},
		"full in mid-write":        {strike: failing("write", syscall.ENOSPC), cure: heal, lasts: long, load: true},
		"a quota of the disk":      {strike: failing("write", syscall.EDQUOT), cure: heal, lasts: long, load: true},
		"a sync fails":             {strike: failing("sync", syscall.EIO), cure: heal, lasts: long, stops: true},
		"a sync fails, it is full": {strike: failing("sync", syscall.ENOSPC), cure: heal, lasts: long, stops: true},
		"a write fails":            {strike: failing("write", syscall.EIO), cure: heal, lasts: long, stops: true},
		"the file is renamed": {strike: func(d *mishapDisk) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.names[memPath+".away"] = d.names[memPath]
			delete(d.names, memPath)
		}, cure: func(d *mishapDisk) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.names[memPath] = d.names[memPath+".away"]
			delete(d.names, memPath+".away")
		}, lasts: long, stops: true},
	} {
		for _, outage := range []middleware.Outage{middleware.FailOpen, middleware.FailClosed} {
			t.Run(fmt.Sprintf("%s, %s", name, map[middleware.Outage]string{middleware.FailOpen: "open", middleware.FailClosed: "closed"}[outage]), func(t *testing.T) {
				testkit.Bubble(t, func(t *testing.T) { m.befalls(t, outage) })
			})
		}
	}
}

type reply struct {
	who      string
	at, took time.Duration // since the beginning, when it came back
	status   int
	degraded bool
}

// passed says that it was admitted by the counter's word.
func (r *reply) passed() bool { return r.status == http.StatusOK && !r.degraded }

// told is when a log has said something.
type told struct {
	began time.Time
	mu    sync.Mutex
	down  []time.Duration
	again []time.Duration
}

// Write implements [io.Writer].
func (l *told) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case strings.Contains(string(line), "does not answer"):
		l.down = append(l.down, time.Since(l.began))
	case strings.Contains(string(line), "answers again"):
		l.again = append(l.again, time.Since(l.began))
	}
	return len(line), nil
}

func (m *mishap) befalls(t *testing.T, outage middleware.Outage) {
	began := time.Now()
	disk, log := newMishapDisk(), &told{began: began}
	counter, err := file.OpenOn(disk, memPath, 1<<30, file.Config{})
	require.NoError(t, err)
	cfg := middleware.Config{
		Policy:     "api",
		Limits:     []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 1 << 20, Window: 365 * 24 * time.Hour}},
		Secrets:    [][]byte{bytes.Repeat([]byte("s"), 32)},
		MaxClients: 1024,
		Identity: func(r *http.Request) (middleware.Identity, error) {
			if who := r.Header.Get("Payer"); who != "" {
				return middleware.Principal(who), nil
			}
			return middleware.PeerAddress(r)
		},
		Exact:  &middleware.Exact{Counter: counter, Outage: outage},
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	}
	limit, err := middleware.New(cfg)
	require.NoError(t, err)
	site := limit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	var mu sync.Mutex
	var replies []reply
	var wg sync.WaitGroup
	stream := func(rate int, ask func(n int, r *http.Request) string) {
		wg.Go(func() {
			for n := 0; time.Since(began) < faultStrikes+m.lasts+2*time.Second; n++ {
				wg.Go(func() {
					r, w, sent := httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder(), time.Now()
					who := ask(n, r)
					site.ServeHTTP(w, r)
					mu.Lock()
					defer mu.Unlock()
					replies = append(replies, reply{who, time.Since(began), time.Since(sent), w.Code, w.Header().Get("Tallystick-Degraded") != ""})
				})
				time.Sleep(time.Second / time.Duration(rate))
			}
		})
	}
	stream(50, func(n int, r *http.Request) string {
		r.Header.Set("Payer", fmt.Sprint("payer", n%payers))
		return r.Header.Get("Payer")
	})
	stream(200, func(n int, r *http.Request) string {
		r.RemoteAddr = fmt.Sprintf("198.18.%d.%d:1", n/250, n%250)
		return ""
	})
	cure := faultStrikes + m.lasts
	time.Sleep(faultStrikes)
	m.strike(disk)
	time.Sleep(m.lasts)
	m.cure(disk)
	if m.stops {
		_, err := counter.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: compile(t, hourly(1))})
		require.ErrorIs(t, err, file.ErrStopped)
		require.NoError(t, counter.Close())
		counter, err = file.OpenOn(disk, memPath, 1<<30, file.Config{})
		require.NoError(t, err)
		cfg.Exact.Counter = counter
		require.NoError(t, limit.Reconfigure(cfg))
	}
	wg.Wait()

	before, all := p99(replies, faultStrikes), p99(replies, 24*time.Hour)
	recovered, refused, fallback := cure, 0, 0
	acknowledged, maybe := map[string]int64{}, map[string]int64{}
	for _, r := range replies {
		switch {
		case r.passed():
			acknowledged[r.who]++
		case r.degraded:
			maybe[r.who]++
		}
		if r.degraded && r.status == http.StatusOK {
			fallback++
			require.False(t, m.load, "by the fallback, and it is load")
			require.Equal(t, middleware.FailOpen, outage)
			require.GreaterOrEqual(t, r.at, faultStrikes)
			require.LessOrEqual(t, r.at, cure+time.Second)
		}
		if r.status != http.StatusOK {
			refused++
			require.False(t, m.known && r.who != "", "a payer has room")
		}
		if !r.passed() {
			recovered = max(recovered, r.at)
		}
	}
	t.Logf("%d requests, %d refused, %d by the fallback; payers' p99 %s, before %s; well %s after the cure; alarms %s, all-clears %s",
		len(replies), refused, fallback, all, before, recovered-cure, log.down, log.again)
	require.Positive(t, refused+fallback, "it is a fault")
	require.LessOrEqual(t, all-before, faultDeadline, "the payers' added p99")
	require.LessOrEqual(t, recovered-cure, time.Second, "recovery")
	if m.load || m.brief {
		require.Empty(t, log.down)
		require.Empty(t, log.again)
	} else {
		require.Len(t, log.down, 1)
		require.Len(t, log.again, 1)
		require.GreaterOrEqual(t, log.again[0], cure)
	}
	// What was answered is counted, and beside it no more than what may have been.
	for n := range payers {
		who := fmt.Sprint("payer", n)
		call, err := limit.CallFor(middleware.Principal(who))
		require.NoError(t, err)
		v, err := counter.Peek(t.Context(), call)
		require.NoError(t, err)
		used := 1<<20 - v.Limits[0].Remaining
		require.GreaterOrEqual(t, used, acknowledged[who], "%s: an answered count is lost", who)
		require.LessOrEqual(t, used, acknowledged[who]+maybe[who], "%s: a count of nothing", who)
	}
	require.NoError(t, counter.Close())
}

// p99 is what 99 of 100 requests of payers have taken at most, that came back until then.
func p99(replies []reply, until time.Duration) time.Duration {
	var took []time.Duration
	for _, r := range replies {
		if r.who != "" && r.at < until {
			took = append(took, r.took)
		}
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}
