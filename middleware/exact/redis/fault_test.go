package redis_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
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
	"github.com/tallystick/tallystick/middleware/exact/redis"
)

const (
	// Ten times the default, because a busy machine is no outage; below the second that
	// an open breaker keeps calls back from the start of the one that failed.
	deadline = 500 * time.Millisecond
	clients  = 32
	limit    = 300 // each customer's, in exact and in fallback
)

// A site is a route behind middleware whose counter is on Redis.
type site struct {
	handler http.Handler
	log     *alarms
}

// alarms keeps what was logged.
type alarms struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (a *alarms) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lines.Write(b)
}

func (a *alarms) count(what string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Count(a.lines.String(), what)
}

func newSite(t *testing.T, counter exact.Counter, outage middleware.Outage, deadline time.Duration) *site {
	t.Helper()
	s := &site{log: new(alarms)}
	m, err := middleware.New(middleware.Config{
		Policy:  "api",
		Limits:  []middleware.Limit{yearly(limit)},
		Secrets: [][]byte{bytes.Repeat([]byte("s"), 32)},
		Identity: func(r *http.Request) (middleware.Identity, error) {
			if customer := r.Header.Get("Customer"); customer != "" {
				return middleware.APIKey(customer), nil
			}
			return middleware.PeerAddress(r)
		},
		Exact:  &middleware.Exact{Counter: counter, Outage: outage, Deadline: deadline},
		Logger: slog.New(slog.NewTextHandler(s.log, nil)),
	})
	require.NoError(t, err)
	s.handler = m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return s
}

// ask makes a request of a customer, or from an address.
func (s *site) ask(who string) (status int, degraded bool) {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	if _, err := netip.ParseAddr(who); err == nil {
		r.RemoteAddr = who + ":1"
	} else {
		r.Header.Set("Customer", who)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w.Code, w.Header().Get(middleware.DegradedHeader) != ""
}

// recovers waits until the counter decides again. Each attempt is another customer's:
// what is charged on the way must not use up what is waited for.
func (s *site) recovers(t *testing.T) {
	t.Helper()
	attempt := 0
	require.Eventually(t, func() bool {
		attempt++
		status, degraded := s.ask(fmt.Sprint(t.Name(), "-recovery-", attempt))
		return status == http.StatusOK && !degraded
	}, patient, 50*time.Millisecond, "it recovers by itself")
}

// ends waits for what must not hang while a server hangs.
func ends(t *testing.T, wg *sync.WaitGroup) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); wg.Wait() }()
	select {
	case <-done:
	case <-time.After(patient):
		require.FailNow(t, "a request does not keep its deadline")
	}
}

// A tide is what came of a load.
type tide struct {
	mu       sync.Mutex
	statuses map[int]int // of decisions by the counter
	degraded map[int]int
	asked    int
	admitted map[string]int
	took     []time.Duration // by customers
	crowd    int             // most goroutines
}

// p99 is what 99 of 100 requests of customers have taken at most. No test judges it: the
// machine may be busy.
func (l *tide) p99() time.Duration {
	slices.Sort(l.took)
	return l.took[len(l.took)*99/100]
}

// load has clients ask so often each, half of them for customers that no other load has,
// and half as strangers, by their addresses. They pause between requests: this is an
// outage, not a flood.
func (s *site) load(t *testing.T, name string, times int) *tide {
	t.Helper()
	l := &tide{statuses: make(map[int]int), degraded: make(map[int]int), admitted: make(map[string]int)}
	h := fnv.New32()
	h.Write([]byte(name))
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for n := range times {
				customer := fmt.Sprint(name, "-", c, "-", n/(limit/2))
				if c%2 == 1 {
					customer = fmt.Sprintf("10.%d.%d.%d", h.Sum32()>>8&255, h.Sum32()&255, c<<2+n/(limit/2))
				}
				began := time.Now()
				status, degraded := s.ask(customer)
				took := time.Since(began)
				l.mu.Lock()
				l.asked++
				if c%2 == 0 {
					l.took = append(l.took, took)
				}
				if degraded {
					l.degraded[status]++
				} else {
					l.statuses[status]++
				}
				if status == http.StatusOK {
					l.admitted[customer]++
				}
				l.crowd = max(l.crowd, runtime.NumGoroutine())
				l.mu.Unlock()
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	ends(t, &wg)
	return l
}

// A fault is something that befalls a server, and how it passes.
type fault struct {
	name   string
	strike func()
	heal   func()
	loses  bool // what was counted before
}

func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes most of a minute")
	}
	for _, outage := range []middleware.Outage{middleware.FailOpen, middleware.FailClosed} {
		t.Run(map[middleware.Outage]string{middleware.FailOpen: "open", middleware.FailClosed: "closed"}[outage], func(t *testing.T) {
			s := startServer(t)
			p := startProxy(t, s.addr())
			for _, f := range []fault{
				{"killed, restarted empty", s.kill, func() { s.start() }, true},
				{"frozen", func() { s.signal(syscall.SIGSTOP) }, func() { s.signal(syscall.SIGCONT) }, false},
				{"slow", func() { p.set(func(p *proxy) { p.delay = 4 * deadline }) }, func() { p.set(func(p *proxy) { p.delay = 0 }) }, false},
				{"drops answers", func() { p.set(func(p *proxy) { p.swallow = true }) }, func() { p.set(func(p *proxy) { p.swallow = false }) }, false},
				{"cuts in the middle of answers", func() { p.set(func(p *proxy) { p.cutAfter = 2 }) }, func() { p.set(func(p *proxy) { p.cutAfter = 0 }) }, false},
				{"memory full", func() { s.do("CONFIG", "SET", "maxmemory", "1") }, func() { s.do("CONFIG", "SET", "maxmemory", "0") }, false},
				{"read-only replica", func() { s.do("REPLICAOF", "127.0.0.1", "1") }, func() { s.do("REPLICAOF", "NO", "ONE") }, false},
				{"loads", func() {
					// Some thousand keys, of which each takes some ms to load.
					s.do("EVAL", "for i = 1, 10000 do redis.call('SET', 'filler' .. i, i) end", "0")
					require.Equal(t, "+OK", s.do("SAVE"))
					s.kill()
					s.start("--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024")
				}, func() {
					s.do("CONFIG", "SET", "key-load-delay", "0")
					require.Eventually(t, func() bool { return s.do("DEL", "filler1") != "" && !strings.HasPrefix(s.do("GET", "k"), "-LOADING") }, patient, 10*time.Millisecond)
				}, false},
				{"wrong password", func() {
					s.do("CONFIG", "SET", "requirepass", "changed")
					p.cut()
				}, func() { s.authenticated("changed", "CONFIG", "SET", "requirepass", "") }, false},
			} {
				t.Run(f.name, func(t *testing.T) { befall(t, p, outage, &f) })
			}
		})
	}
}

// befall has a fault strike in the middle of a load and pass again.
func befall(t *testing.T, p *proxy, outage middleware.Outage, f *fault) {
	before := runtime.NumGoroutine()
	counter := open(t, p.url())
	site := newSite(t, counter, outage, deadline)
	// Where nothing is wrong, a busy machine must not look like it: the same counter, by
	// the longest deadline there is.
	calm := newSite(t, counter, outage, 10*time.Second)

	well := calm.load(t, t.Name()+"-well", 50)
	require.Empty(t, well.degraded)
	require.Equal(t, []int{http.StatusOK}, keys(well.statuses))
	require.Zero(t, calm.log.count("answer"), "nothing to tell")

	// One customer spends half of what he has before the fault.
	spender := t.Name() + "-spender"
	spent := 0
	for range limit / 2 {
		if status, _ := calm.ask(spender); status == http.StatusOK {
			spent++
		}
	}
	require.Equal(t, limit/2, spent)

	f.strike()
	ill := site.load(t, t.Name()+"-ill", 600) // longer than the second of silence that is an outage
	want := map[middleware.Outage]int{middleware.FailOpen: http.StatusOK, middleware.FailClosed: http.StatusServiceUnavailable}[outage]
	require.Equal(t, []int{want}, keys(ill.degraded), "the policy's choice holds")
	require.Less(t, ill.statuses[http.StatusOK], ill.asked/10, "most of them fell into the fault")
	for customer, n := range ill.admitted {
		require.LessOrEqual(t, n, 2*limit, "%s: the counter's quota and the fallback's", customer)
	}
	require.Equal(t, 1, site.log.count("does not answer"), "one alarm")
	require.Zero(t, site.log.count("answers again"), "and no all-clear before the cure")
	t.Logf("%d requests in the fault; customers' p99 %s, before %s; at most %d goroutines", ill.asked, ill.p99(), well.p99(), ill.crowd)
	require.Less(t, ill.crowd, before+2*clients+3*256, "goroutines are bounded")

	for range 2 * limit {
		if status, _ := site.ask(spender); status == http.StatusOK {
			spent++
		}
	}
	most := 2 * limit // the counter's, and the fallback's
	f.heal()
	site.recovers(t)
	require.Eventually(t, func() bool { return site.log.count("answers again") == 1 }, patient, 10*time.Millisecond, "one log line")

	again := calm.load(t, t.Name()+"-again", 50)
	require.Empty(t, again.degraded)
	require.Equal(t, []int{http.StatusOK}, keys(again.statuses))
	for range 2 * limit {
		if status, _ := site.ask(spender); status == http.StatusOK {
			spent++
		}
	}
	if f.loses {
		most += limit
	}
	require.LessOrEqual(t, spent, most, "nothing above the bound")
	require.Equal(t, 1, site.log.count("does not answer"))

	require.NoError(t, counter.Close())
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+8 }, patient, 20*time.Millisecond, "goroutines end")
}

func keys(m map[int]int) (list []int) {
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

func (s *server) signal(sig syscall.Signal) { require.NoError(s.t, s.cmd.Process.Signal(sig)) }

// A flood that meets a server which hardly answers is load: 503, and never the fallback.
func TestFloodIsNoOutage(t *testing.T) {
	s := startServer(t)
	p := startProxy(t, s.addr())
	counter := open(t, p.url())
	site := newSite(t, counter, middleware.FailOpen, deadline)
	site.ask("warm")
	p.set(func(p *proxy) { p.delay = deadline / 4 })
	var overloaded, degraded, admitted atomic.Int64
	var wg sync.WaitGroup
	for n := range 2000 {
		wg.Go(func() {
			status, fallback := site.ask(fmt.Sprint("flood", n))
			if status == http.StatusServiceUnavailable {
				overloaded.Add(1)
			}
			if status == http.StatusOK {
				admitted.Add(1)
			}
			if fallback {
				degraded.Add(1)
			}
		})
	}
	wg.Wait()
	require.Positive(t, overloaded.Load())
	require.Zero(t, degraded.Load())
	require.Zero(t, site.log.count("does not answer"))
	p.set(func(p *proxy) { p.delay = 0 })
	site.recovers(t)
	t.Logf("%d overloaded, %d admitted, %d degraded", overloaded.Load(), admitted.Load(), degraded.Load())
}

// A flood on a server that is frozen keeps its deadlines too, though the client has no
// more places for what is unanswered.
func TestFloodOnAFrozenServerKeepsDeadlines(t *testing.T) {
	s := startServer(t)
	counter := open(t, s.url())
	site := newSite(t, counter, middleware.FailOpen, deadline)
	site.ask("warm")
	s.signal(syscall.SIGSTOP)
	defer s.signal(syscall.SIGCONT)
	before := runtime.NumGoroutine()
	var degraded, most atomic.Int64
	var wg sync.WaitGroup
	for w := range 250 {
		wg.Go(func() {
			// After a second it is an outage.
			for n := 0; n < 20 || degraded.Load() == 0; n++ {
				if _, fallback := site.ask(fmt.Sprint("flood", w, "-", n)); fallback {
					degraded.Add(1)
				}
				now := int64(runtime.NumGoroutine())
				for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	ends(t, &wg)
	t.Logf("%d degraded, %d goroutines", degraded.Load(), most.Load())
	require.Less(t, most.Load(), int64(before+2*250+2*512))
}

// Calls that are on their way when a counter closes may be counted.
func TestCloseLeavesItOpenWhatWasCounted(t *testing.T) {
	s := startServer(t)
	p := startProxy(t, s.addr())
	c := open(t, p.url())
	call := exact.Call{Key: "k", Cost: 1, Policy: compile(t, yearly(5))}
	_, err := c.Peek(t.Context(), call)
	require.NoError(t, err)
	p.set(func(p *proxy) { p.swallow = true })
	done := make(chan error, 1)
	go func() {
		_, err := c.Take(context.Background(), call)
		done <- err
	}()
	require.Eventually(t, func() bool { return p.lost.Load() > 0 }, patient, time.Millisecond)
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	require.ErrorIs(t, <-done, exact.ErrMaybeCounted)
	require.NoError(t, <-closed)
	_, err = c.Take(t.Context(), call)
	require.ErrorIs(t, err, exact.ErrNotCounted)
}

// A server that evicts keys is refused, with what to do; it may be allowed by name.
func TestServerThatEvictsIsRefused(t *testing.T) {
	s := startServer(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	p := compile(t, yearly(5))
	_, err := open(t, s.url()).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
	require.ErrorIs(t, err, exact.ErrNotCounted)
	require.ErrorContains(t, err, "set maxmemory-policy to noeviction, or DangerouslyAllowEviction")
}

// Whose context ends while a counter connects waits no longer.
func TestConnectingKeepsDeadlines(t *testing.T) {
	s := startServer(t)
	s.signal(syscall.SIGSTOP)
	defer s.signal(syscall.SIGCONT)
	c := open(t, s.url())
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	_, err := c.Take(ctx, exact.Call{Key: "k", Cost: 1, Policy: compile(t, yearly(5))})
	require.ErrorIs(t, err, exact.ErrNotCounted)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A server that does not answer holds so many calls and no more: the next one is told at
// once that it was not counted.
func TestUnansweredCallsHaveABound(t *testing.T) {
	s := startServer(t)
	p := startProxy(t, s.addr())
	counter := open(t, p.url())
	policy := compile(t, yearly(5))
	_, err := counter.Peek(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: policy})
	require.NoError(t, err)
	p.set(func(p *proxy) { p.swallow = true })
	var busy atomic.Int64
	var wg sync.WaitGroup
	for n := range 2048 {
		wg.Go(func() {
			call := exact.Call{Key: fmt.Sprint("k", n), Cost: 1, Policy: policy}
			if _, err := counter.Take(t.Context(), call); errors.Is(err, exact.ErrBusy) {
				busy.Add(1)
			}
		})
	}
	ends(t, &wg)
	t.Logf("%d of 2048 calls found no place", busy.Load())
	require.Positive(t, busy.Load())
}

// What a server finds when nobody waits for it any more, it does not count, and says so.
func TestStaleCallsAreNotCounted(t *testing.T) {
	s := startServer(t)
	c := open(t, s.url())
	p := compile(t, yearly(1000))
	for range 3 { // it learns the server's time
		_, err := c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
		require.NoError(t, err)
	}
	s.signal(syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for n := range 100 {
		wg.Go(func() {
			_, err := c.Take(ctx, exact.Call{Key: fmt.Sprint("k", n), Cost: 1, Policy: p})
			if !errors.Is(err, exact.ErrMaybeCounted) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s.signal(syscall.SIGCONT)
	v, err := c.Peek(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
	require.NoError(t, err)
	require.EqualValues(t, 997, v.Limits[0].Remaining)
	// The calls before it on the same connection have been answered.
	require.Equal(t, ":1", s.do("DBSIZE"), "only the key of before is there")
}

// A server whose clock is set refuses nobody: what it takes for stale is asked once more.
func TestServerClockMayBeSet(t *testing.T) {
	s := startServer(t)
	c, err := redis.OpenByKey(s.url(), redis.Config{})
	require.NoError(t, err)
	defer c.Close()
	p := compile(t, yearly(1000))
	for n, second := range []string{"2000000000", "2000003600", "2000000000", "2000003600"} {
		s.do("HSET", "clock", "s", second, "us", "0")
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), patient)
			_, err := c.Take(ctx, exact.Call{Key: fmt.Sprint("k", n), Cost: 1, Policy: p})
			cancel()
			require.NoError(t, err, second)
		}
		v, err := c.Peek(t.Context(), exact.Call{Key: fmt.Sprint("k", n), Cost: 1, Policy: p})
		require.NoError(t, err)
		require.EqualValues(t, 997, v.Limits[0].Remaining, "each is counted once")
	}
}
