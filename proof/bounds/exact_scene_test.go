// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
)

// A queue is a server that does one call after the other. What a caller has given up is worked off all the same,
// unless the server is told the deadlines: then it costs less. It is for bubbles: time is virtual.
type queue struct {
	service, stale time.Duration // stale: of a call that is too late; 0: as any other

	mu    sync.Mutex
	free  time.Time // when all that is in the queue is done
	calls int
}

// slows changes what a call takes.
func (q *queue) slows(service time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.service = service
}

// stall has the server do nothing for a while.
func (q *queue) stall(lasts time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free = time.Now().Add(lasts)
}

// arrive puts a call into the queue, and returns when it is done, and whether it was too late to be counted.
func (q *queue) arrive(deadline time.Time) (done time.Time, late bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls++
	if now := time.Now(); q.free.Before(now) {
		q.free = now
	}
	if late = q.stale > 0 && q.free.After(deadline); late {
		q.free = q.free.Add(q.stale)
	} else {
		q.free = q.free.Add(q.service)
	}
	return q.free, late
}

// A queued counter is the engine of one instance: it has 512 places for calls that the
// server has not answered. What is counted does not matter here: everybody is admitted.
type queued struct {
	exact.Counter
	server *queue

	mu  sync.Mutex
	out []time.Time // when each is done
}

// Take implements [exact.Counter].
func (c *queued) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	deadline, _ := ctx.Deadline()
	c.mu.Lock()
	for len(c.out) > 0 && !c.out[0].After(time.Now()) {
		c.out = c.out[1:]
	}
	if len(c.out) >= 512 {
		c.mu.Unlock()
		return exact.Verdict{}, exact.ErrBusy
	}
	done, late := c.server.arrive(deadline)
	c.out = append(c.out, done)
	c.mu.Unlock()
	if done.After(deadline) {
		return never(ctx, exact.Call{})
	}
	time.Sleep(time.Until(done))
	if late {
		return exact.Verdict{}, exact.ErrNotCounted
	}
	var v exact.Verdict
	v.Admitted = true
	v.Receipt = exact.Receipt{Key: call.Key, Cost: call.Cost, Policy: call.Policy, At: time.Now(), Serial: "1"}
	return v, nil
}

// A scene is instances of a route that share a server, and those who ask them, in virtual time.
type scene struct {
	sites  []http.Handler
	limits []*middleware.Middleware
	server *queue
	logs   []*handlers.Logged
	over   chan struct{}
	actors sync.WaitGroup
}

func newScene(t *testing.T, instances int, server *queue, x middleware.Exact) *scene {
	s := &scene{server: server, over: make(chan struct{})}
	for range instances {
		s.add(t, &queued{server: server}, x)
	}
	return s
}

// add adds an instance with a counter of its own.
func (s *scene) add(t *testing.T, counter exact.Counter, x middleware.Exact) {
	x.Counter = counter
	cfg := middleware.Config{
		Policy:     "api",
		Limits:     []middleware.Limit{{Quota: 1_000_000, Window: time.Hour}},
		Tiers:      map[string][]middleware.Limit{"paid": {{Quota: 1_000_000, Window: time.Hour}}},
		Secrets:    [][]byte{handlers.Secret("a")},
		MaxClients: 1024,
		Identity:   payerOr,
		Exact:      &x,
	}
	s.logs = append(s.logs, handlers.LogTo(&cfg))
	m := handlers.NewLimiter(t, cfg)
	s.limits = append(s.limits, m)
	s.sites = append(s.sites, m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
}

// payerOr is an identity function: a principal in a tier, or an address.
func payerOr(r *http.Request) (middleware.Identity, error) {
	if who := r.Header.Get("Payer"); who != "" {
		id := middleware.Principal(who)
		id.Tier = r.Header.Get("Tier")
		return id, nil
	}
	return middleware.PeerAddress(r)
}

// flood has so many clients at each instance ask again as soon as they have an answer, or
// 10 ms after one that says no.
func (s *scene) flood(toll *toll, clients int, set func(int, *http.Request)) {
	for n := range clients * len(s.sites) {
		s.actors.Go(func() {
			for s.lastsStill() {
				if !toll.ask(s.sites[n%len(s.sites)], n, set) {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
}

// stream has so many requests come in a second, whatever becomes of those before them.
func (s *scene) stream(toll *toll, rate int, set func(int, *http.Request)) {
	s.actors.Go(func() {
		for n := 0; s.lastsStill(); n++ {
			s.actors.Go(func() { toll.ask(s.sites[n%len(s.sites)], n, set) })
			time.Sleep(time.Second / time.Duration(rate))
		}
	})
}

func (s *scene) lastsStill() bool {
	select {
	case <-s.over:
		return false
	default:
		return true
	}
}

// lasts lets time pass, has something happen in it, and ends the scene.
func (s *scene) lasts(long time.Duration, happens func(at time.Duration)) {
	const step = 10 * time.Millisecond
	for at := time.Duration(0); at < long; at += step {
		if happens != nil {
			happens(at)
		}
		time.Sleep(step)
	}
	close(s.over)
	s.actors.Wait()
}

// alarms returns how many outages the logs tell of.
func (s *scene) alarms() int { return len(s.told("does not answer")) }

// allClear returns after what time from a cure the first instance has said that its counter is well, less the
// ten seconds for which it must have been. The scene is over: a payer asks now and then.
func (s *scene) allClear(t *testing.T, cure time.Time) time.Duration {
	t.Helper()
	for n := 0; n < 200 && len(s.told("answers again")) == 0; n++ {
		s.toll().ask(s.sites[0], n, paying("afterwards"))
		time.Sleep(50 * time.Millisecond)
	}
	require.Len(t, s.told("answers again"), 1, "one all-clear")
	return s.told("answers again")[0].Sub(cure) - 10*time.Second
}

// told returns when the logs said something, for each line that does.
func (s *scene) told(what string) (at []time.Time) {
	for _, log := range s.logs {
		at = append(at, log.Told(what)...)
	}
	return at
}

// calls returns how many calls the server has had.
func (s *scene) calls() int {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	return s.server.calls
}

func (s *scene) toll() *toll { return &toll{began: time.Now()} }

// A toll counts what became of requests.
type toll struct {
	began time.Time

	mu                        sync.Mutex
	passed, fallback, refused int
	down                      int // of those that were refused: because the counter does not answer
	longest                   time.Duration
	lastRefused               time.Duration // since it began
	asks                      []ask
}

// An ask is one request.
type ask struct {
	at, took time.Duration // since the toll began, when it came back; how long it took
	passed   bool          // by the counter's word
	fallback bool
}

// ask makes a request, and reports whether it passed by the counter's word.
func (c *toll) ask(h http.Handler, n int, set func(int, *http.Request)) (passed bool) {
	r := handlers.NewRequest()
	set(n, r)
	w := httptest.NewRecorder()
	began := time.Now()
	h.ServeHTTP(w, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest = max(c.longest, time.Since(began))
	a := ask{at: time.Since(c.began), took: time.Since(began)}
	defer func() { c.asks = append(c.asks, a) }()
	switch degraded := w.Header().Get("Tallystick-Degraded") != ""; {
	case w.Code != http.StatusOK:
		c.refused++
		c.lastRefused = time.Since(c.began)
		if degraded {
			c.down++
		}
	case degraded:
		c.fallback++
		a.fallback = true
	default:
		c.passed++
		a.passed = true
		return true
	}
	return false
}

func (c *toll) String() string {
	return fmt.Sprintf("%d passed, %d by the fallback, %d refused", c.passed, c.fallback, c.refused)
}

// addresses are those of strangers, each a few of many.
func addresses(n int, r *http.Request) {
	r.RemoteAddr = fmt.Sprintf("198.18.%d.%d:1", n/250%250, n%250)
}

// paying is the request of a payer.
func paying(name string) func(int, *http.Request) {
	return func(_ int, r *http.Request) { r.Header.Set("Payer", name) }
}

// briefly is so long, or half of it where time is short.
func briefly(long time.Duration) time.Duration {
	if !kit.Whole() {
		long /= 2
	}
	return long
}
