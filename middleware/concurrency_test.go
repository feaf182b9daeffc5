// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/kit"
)

// A door is a handler whose requests stay until they are told to go.
type door struct {
	live, most atomic.Int64
	open       chan struct{}
	obeys      bool // the end of its context
	cause      chan error
}

func newDoor(obeys bool) *door {
	return &door{open: make(chan struct{}), obeys: obeys, cause: make(chan error, 1000)}
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	live := d.live.Add(1)
	defer d.live.Add(-1)
	for most := d.most.Load(); live > most && !d.most.CompareAndSwap(most, live); most = d.most.Load() {
	}
	if !d.obeys {
		<-d.open
		return
	}
	select {
	case <-d.open:
	case <-r.Context().Done():
		d.cause <- context.Cause(r.Context())
	}
}

// atOnce is a policy of plenty a minute, two at once.
func atOnce(c middleware.Concurrency) middleware.Config {
	cfg := contact(new(clock))
	cfg.Now = time.Now
	cfg.Limits = []middleware.Limit{{Quota: 1000, Window: time.Minute}}
	cfg.Concurrency = &c
	return cfg
}

// come sends n requests that stay, and returns once they do; and how many are admitted, in the end.
func come(h http.Handler, n int, options ...option) *atomic.Int64 {
	passed := new(atomic.Int64)
	for range n {
		go func() { passed.Add(int64(admitted(h, 1, options...))) }()
	}
	synctest.Wait()
	return passed
}

func TestNoMoreAtOnceThanMax(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		cfg := atOnce(middleware.Concurrency{Max: 2})
		d, told := newDoor(false), record(&cfg)
		h := newLimiter(t, cfg).Handler(d)
		come(h, 2)
		for range 20 {
			refused := requireStatus(t, http.StatusTooManyRequests, send(h))
			require.Equal(t, middleware.TooManyAtOnce, told.Last().Reason)
			require.Contains(t, bodyOf(t, refused), `"reason":"too-many-at-once"`)
			require.LessOrEqual(t, retryAfter(t, refused), 3*time.Second)
			require.Empty(t, tokenIn(refused), "it was charged nothing, and is not remembered")
		}
		come(h, 1, from("198.51.100.1"))
		require.EqualValues(t, 3, d.live.Load(), "another client has two of its own")
		d.opens()
		require.Contains(t, send(h).Header.Get("RateLimit"), "r=997", "twenty were refused, and charged nothing")
	})
}

// A slot is given back whatever becomes of its request: 1000 end in a panic, by a limit, or well.
func TestEverySlotIsGivenBack(t *testing.T) {
	cfg := atOnce(middleware.Concurrency{Max: 1})
	cfg.Now, cfg.Limits[0].Quota = new(clock).Now, 100 // within one window
	n := 0
	h := newLimiter(t, cfg).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if n++; n%2 == 0 {
			panic(http.ErrAbortHandler)
		}
	}))
	for i := range 1000 {
		func() {
			defer func() { _ = recover() }()
			resp := send(h)
			if i >= 100 {
				require.Equal(t, "0", resp.Header.Get("RateLimit")[len(`"contact";r=`):len(`"contact";r=`)+1])
			}
			require.NotContains(t, bodyOf(t, resp), "too-many-at-once")
		}()
	}
	require.Equal(t, 100, n)
}

// Five connections without any work shut all clients of their address out for MaxHold, and no longer.
func TestIdleRequestsHoldASlotNoLongerThanMaxHold(t *testing.T) {
	for _, ends := range []bool{false, true} {
		kit.Bubble(t, func(t *testing.T) {
			d := newDoor(true)
			h := newLimiter(t, atOnce(middleware.Concurrency{Max: 5, CancelHeld: ends})).Handler(d)
			come(h, 5)
			time.Sleep(30*time.Second - 1)
			require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if ends {
				require.Zero(t, d.live.Load())
				require.ErrorIs(t, <-d.cause, context.DeadlineExceeded)
			}
			come(h, 5)
			require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
			require.EqualValues(t, map[bool]int{false: 10, true: 5}[ends], d.live.Load(), "the idle ones go on uncounted, or have ended")
			close(d.open)
		})
	}
}

func TestABoughtTallyHasSlotsOfItsOwn(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		cfg := atOnce(middleware.Concurrency{Max: 2})
		cfg.Challenge = &middleware.Challenge{Mode: middleware.WhenExhausted, Path: "/t/", Work: 1 << 10}
		cfg.Limits[0].Quota = 10
		m := newLimiter(t, cfg)
		quick := m.Handler(new(spy))
		spend(t, quick, 10)
		var own [2]string
		for i := range own {
			bought := requireStatus(t, http.StatusOK, send(quick, with(middleware.ProofHeader, solved(t, send(quick)))))
			own[i] = tokenIn(bought)
		}
		time.Sleep(2 * time.Minute)

		d := newDoor(false)
		h := m.Handler(d)
		come(h, 3)
		require.EqualValues(t, 2, d.live.Load())
		for i := range own {
			come(h, 5, showing(own[i]))
			require.EqualValues(t, 4+2*i, d.live.Load(), "two of its own, and none of the shared ones, which are held")
		}
		close(d.open)
	})
}

func TestAHijackedConnectionHoldsItsSlot(t *testing.T) {
	hang := make(chan struct{})
	m := newLimiter(t, atOnce(middleware.Concurrency{Max: 1, MaxHold: time.Hour, CancelHeld: true}))
	server := serve(t, m.Handler(hanging(t, hang)))
	status := func(method string) int {
		return oneShot(t, server, method+" / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").StatusCode
	}
	require.Equal(t, http.StatusSwitchingProtocols, status(http.MethodPost))
	require.Equal(t, http.StatusTooManyRequests, status(http.MethodGet), "its handler has returned")
	hang <- struct{}{}
	<-hang
	require.Equal(t, http.StatusOK, status(http.MethodGet))
}

// With a counter that all instances share no more than Max are served by all of them. One
// that is killed holds its slots for MaxHold.
func TestSlotsOfAllInstances(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		counter := memory.New(1024, time.Now)
		cfg := atOnce(middleware.Concurrency{Max: 3})
		cfg.Exact = &middleware.Exact{Counter: counter, Outage: middleware.FailClosed}
		d := newDoor(true)
		var instances []http.Handler
		for range 4 {
			instances = append(instances, newLimiter(t, cfg).Handler(d))
			come(instances[len(instances)-1], 3)
		}
		require.EqualValues(t, 3, d.live.Load())
		d.opens()
		d.open = make(chan struct{})
		come(instances[3], 1)
		require.EqualValues(t, 1, d.live.Load(), "all were given back")
		d.opens()

		// Killed: its requests are gone, and gave nothing back.
		killed := &altered{Counter: counter, OnRefund: notRefunded(exact.ErrNoRefund)}
		cfg.Exact.Counter = killed
		require.Equal(t, 3, admitted(newSite(t, cfg), 3))
		require.Equal(t, http.StatusTooManyRequests, send(instances[0]).StatusCode)
		time.Sleep(30*time.Second - 1)
		require.Equal(t, http.StatusTooManyRequests, send(instances[0]).StatusCode)
		time.Sleep(2 * time.Nanosecond)
		d.open = make(chan struct{})
		come(instances[0], 4)
		require.EqualValues(t, 3, d.live.Load())
		time.Sleep(29 * time.Second)
		synctest.Wait()
		require.Zero(t, d.live.Load())
		require.ErrorIs(t, <-d.cause, context.DeadlineExceeded, "a second before others are told that the slot is free")
		require.EqualValues(t, 3, d.most.Load(), "never above Max")
	})
}

// In an outage each instance counts for itself, or refuses.
func TestSlotsInAnOutage(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		for _, outage := range []middleware.Outage{middleware.FailOpen, middleware.FailClosed} {
			l := newLedger(new(clock))
			l.Fault = func(context.Context, int) error { return errEngine }
			cfg := atOnce(middleware.Concurrency{Max: 2})
			cfg.Exact = &middleware.Exact{Counter: l, Outage: outage}
			told, d := record(&cfg), newDoor(false)
			h := newLimiter(t, cfg).Handler(d)
			come(h, 5)
			if outage == middleware.FailClosed {
				require.Zero(t, d.live.Load())
				require.Equal(t, middleware.CounterDown, told.Last().Reason)
				continue
			}
			require.EqualValues(t, 2, d.live.Load())
			require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
			require.Equal(t, middleware.TooManyAtOnce, told.Last().Reason)
			require.True(t, told.Last().Degraded)
			d.opens()
		}
	})
}

// A call for a slot that fails alone, and its repetition, refuses under FailClosed, though the
// counter would answer the next.
func TestASlotThatNobodyKnowsOfIsNone(t *testing.T) {
	l := newLedger(new(clock))
	calls := 0
	l.Fault = func(context.Context, int) error {
		if calls++; calls <= 2 {
			return errEngine
		}
		return nil
	}
	cfg := atOnce(middleware.Concurrency{Max: 2})
	cfg.Exact = counting(l)
	h := newSite(t, cfg)
	require.Equal(t, http.StatusServiceUnavailable, send(h).StatusCode)
	require.Equal(t, middleware.CounterDown, h.Decisions.Last().Reason)
	require.Zero(t, h.Spy.Calls.Load())
	require.Equal(t, 2, calls, "the quota is not asked for")
}

func TestReconfigureKeepsWhatIsServed(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		cfg := atOnce(middleware.Concurrency{Max: 2})
		m, d := newLimiter(t, cfg), newDoor(false)
		h := m.Handler(d)
		come(h, 2)
		cfg.Concurrency.Max = 3
		require.NoError(t, m.Reconfigure(cfg))
		come(h, 2)
		require.EqualValues(t, 3, d.live.Load())
		close(d.open)
	})
}

func TestProblemsOfConcurrency(t *testing.T) {
	for want, c := range map[string]middleware.Concurrency{
		"Concurrency.Max":             {},
		"Concurrency.Tiers[\"gold\"]": {Max: 1, Tiers: map[string]int{"gold": 1}},
		"Concurrency.Tiers[\"pro\"]":  {Max: 1, Tiers: map[string]int{"pro": 0}},
		"Concurrency.MaxHold":         {Max: 1, MaxHold: time.Second},
	} {
		cfg := atOnce(c)
		cfg.Tiers = map[string][]middleware.Limit{"pro": cfg.Limits}
		_, err := middleware.New(cfg)
		require.Equal(t, []string{want}, problems(t, err))
	}
}

// opens lets all go, and waits until they are gone.
func (d *door) opens() {
	close(d.open)
	synctest.Wait()
}

func TestAPanicOfTheHookGivesTheSlotBack(t *testing.T) {
	cfg := atOnce(middleware.Concurrency{Max: 1})
	n := 0
	cfg.OnDecision = func(context.Context, middleware.Decision) {
		if n++; n == 1 {
			panic(http.ErrAbortHandler)
		}
	}
	h, spy := limited(t, cfg)
	require.Panics(t, func() { send(h) })
	require.Equal(t, http.StatusOK, send(h).StatusCode)
	require.EqualValues(t, 1, spy.Calls.Load())
}

func TestARefusalHoldsNoSlot(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		cfg := atOnce(middleware.Concurrency{Max: 1})
		cfg.Limits[0].Quota = 2
		cfg.Cost = costOf
		tarpit := newDoor(false)
		cfg.RefusalHandler = tarpit
		h, _ := limited(t, cfg)
		require.Equal(t, http.StatusOK, send(h).StatusCode)
		come(h, 1, costing(2))
		require.EqualValues(t, 1, tarpit.live.Load())
		require.Equal(t, http.StatusOK, send(h).StatusCode)
		close(tarpit.open)
	})
}

func TestAHijackedConnectionCanBeHalfClosed(t *testing.T) {
	half := make(chan bool, 1)
	m := newLimiter(t, atOnce(middleware.Concurrency{Max: 1}))
	server := serve(t, m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn := upgraded(t, w)
		_, ok := conn.(interface{ CloseWrite() error })
		half <- ok
		_ = conn.Close()
	})))
	oneShot(t, server, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	require.True(t, <-half)
}

// In shadow mode no request waits or is ended, with a counter or without, and the hook is told.
func TestShadowOfTooManyAtOnce(t *testing.T) {
	for _, counter := range []exact.Counter{nil, memory.New(1024, time.Now)} {
		kit.Bubble(t, func(t *testing.T) {
			cfg := atOnce(middleware.Concurrency{Max: 2, CancelHeld: true})
			cfg.Shadow = true
			if counter != nil {
				cfg.Exact = &middleware.Exact{Counter: counter, Outage: middleware.FailOpen}
			}
			d, told := newDoor(true), record(&cfg)
			h := newLimiter(t, cfg).Handler(d)
			come(h, 2)
			come(h, 2) // later: of clients that come at once it is not known which is heard of last
			require.EqualValues(t, 4, d.live.Load())
			require.Equal(t, middleware.TooManyAtOnce, told.Last().Reason)
			require.True(t, told.Last().Allowed)
			time.Sleep(time.Minute)
			synctest.Wait()
			require.EqualValues(t, 4, d.live.Load(), "no request is ended")
			close(d.open)
		})
	}
}
