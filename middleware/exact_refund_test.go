// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
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

// TestRefundBehindATimeout: http.TimeoutHandler answers and leaves the handler behind, which gives back what it could
// not deliver in time, while the response is written. The race detector is the judge.
func TestRefundBehindATimeout(t *testing.T) {
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		t.Run(m, func(t *testing.T) {
			now := new(clock)
			cfg := paid(now, newLedger(now))
			cfg.Limits[0].Quota = 1000
			outer := contact(now)
			outer.Policy, outer.Limits[0].Quota = "outer", 1000
			var late sync.WaitGroup
			var pause time.Duration
			inner := newLimiter(t, cfg).Handler(http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer late.Done()
				<-r.Context().Done()
				for began := time.Now(); time.Since(began) < pause; { // no sleep is that short
				}
				require.NoError(t, middleware.Refund(w, r))
			}), time.Millisecond, "late"))
			server := serve(t, newLimiter(t, outer).Handler(inner))
			c := clientAt(t, "127.0.0.2")
			for i := range 60 {
				pause = time.Duration(i) * 5 * time.Microsecond
				late.Add(1)
				over(t, c, server.URL, method(m)) // 503, or 200 where the handler was done sooner
				late.Wait()
			}
		})
	}
}

func TestRefundMayBeTriedAgain(t *testing.T) {
	c := new(clock)
	counter := &altered{Counter: memory.New(0, c.Now)}
	var errs []error
	h := newLimiter(t, paid(c, counter)).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, err := range []error{exact.ErrNotCounted, exact.ErrNotCounted, nil, nil} {
			if counter.OnRefund = nil; err != nil {
				counter.OnRefund = notRefunded(err)
			}
			errs = append(errs, middleware.Refund(w, r))
		}
	}))
	send(h)
	require.ErrorIs(t, errs[0], exact.ErrNotCounted)
	require.ErrorIs(t, errs[1], exact.ErrNotCounted)
	require.NoError(t, errs[2])
	require.ErrorIs(t, errs[3], exact.ErrNoRefund)

	var err error
	plain := newLimiter(t, contact(c)).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { err = middleware.Refund(w, r) }))
	send(plain)
	require.NoError(t, err, "on any policy")
}

// losing loses the answers to refunds, in the order of lose: after they were made.
type losing struct {
	exact.Counter
	lose  []fate
	asked int
}

// A fate is what becomes of a refund's answer.
type fate int

const (
	arrives fate = iota
	lostAtOnce
	lostInTime // until the deadline nobody says anything
	notCounted
	otherError
)

func (l *losing) Refund(ctx context.Context, r exact.Receipt) error {
	becomes := arrives
	if l.asked < len(l.lose) {
		becomes = l.lose[l.asked]
	}
	l.asked++
	if becomes == notCounted {
		return exact.ErrNotCounted
	}
	err := l.Counter.Refund(ctx, r)
	switch becomes {
	case lostAtOnce:
		return exact.ErrMaybeCounted
	case lostInTime:
		<-ctx.Done()
		return fmt.Errorf("%w: %w", exact.ErrMaybeCounted, ctx.Err())
	case otherError:
		return errEngine
	}
	return err
}

// A refund whose answer is lost is asked for again, by us and by the caller, and given once.
func TestRefundWhoseAnswerIsLost(t *testing.T) {
	for name, tt := range map[string]struct {
		lose  []fate
		errs  []error // of Refund, call by call; nil: it is done
		asked int
	}{
		"never":                     {nil, []error{nil, exact.ErrNoRefund}, 1},
		"once":                      {[]fate{lostAtOnce}, []error{nil, exact.ErrNoRefund}, 2},
		"of any other error":        {[]fate{otherError}, []error{nil, exact.ErrNoRefund}, 2},
		"twice":                     {[]fate{lostAtOnce, lostAtOnce}, []error{exact.ErrMaybeCounted, nil, exact.ErrNoRefund}, 3},
		"three times":               {[]fate{lostAtOnce, lostAtOnce, lostAtOnce}, []error{exact.ErrMaybeCounted, nil, exact.ErrNoRefund}, 4},
		"for the deadline":          {[]fate{lostInTime}, []error{exact.ErrMaybeCounted, nil, exact.ErrNoRefund}, 2},
		"once, then not asked":      {[]fate{lostAtOnce, notCounted}, []error{exact.ErrNotCounted, nil, exact.ErrNoRefund}, 3},
		"not asked, then lost":      {[]fate{notCounted, lostAtOnce}, []error{exact.ErrNotCounted, nil, exact.ErrNoRefund}, 3},
		"not asked is not repeated": {[]fate{notCounted}, []error{exact.ErrNotCounted, nil, exact.ErrNoRefund}, 2},
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			counter := &losing{Counter: memory.New(0, nil), lose: tt.lose}
			cfg := hasty(new(clock), counter)
			cfg.Now = nil
			fails := true
			h := newLimiter(t, cfg).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !fails {
					return
				}
				fails = false
				for i, want := range tt.errs {
					require.ErrorIs(t, middleware.Refund(w, r), want, "call %d", i)
				}
			}))
			require.Equal(t, http.StatusOK, send(h).StatusCode)
			require.Equal(t, tt.asked, counter.asked)
			require.Equal(t, 5, admitted(h, 10), "all of the quota is there, and no more")
			synctest.Wait()
		})
	}
}

// A charge that the counter does not have is no lost answer.
func TestRefundOfNothingIsNotDone(t *testing.T) {
	c := new(clock)
	counter := &losing{Counter: &altered{Counter: memory.New(0, c.Now), OnRefund: notRefunded(exact.ErrNoRefund)}}
	h := newLimiter(t, paid(c, counter)).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.ErrorIs(t, middleware.Refund(w, r), exact.ErrNoRefund)
		require.ErrorIs(t, middleware.Refund(w, r), exact.ErrNoRefund)
	}))
	send(h)
	require.Equal(t, 1, counter.asked)
}

// What comes back too late is an error, is not asked for again, and is counted.
func TestLateRefundsAreCounted(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) { // the deadline passes
		c := new(clock)
		counter := &losing{Counter: &altered{Counter: memory.New(0, c.Now), OnRefund: notRefunded(exact.ErrLateRefund)}, lose: []fate{lostInTime}}
		m := newLimiter(t, paid(c, counter))
		h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			require.ErrorIs(t, middleware.Refund(w, r), exact.ErrMaybeCounted)
			require.ErrorIs(t, middleware.Refund(w, r), exact.ErrLateRefund)
			require.ErrorIs(t, middleware.Refund(w, r), exact.ErrNoRefund)
		}))
		send(h)
		require.EqualValues(t, 1, m.Stats().Counter.LateRefunds)
	})
}

func TestExactRefundLeavesTokenMemoryAndCounterAgreeing(t *testing.T) {
	for _, m := range []string{http.MethodPost, http.MethodGet} {
		for _, memory := range []bool{true, false} {
			_, l, cfg := paidRoute()
			cfg.Exact.Outage = middleware.FailOpen
			cfg.InsecureNoMemory = !memory
			var again error
			failing := func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Fail") != "" {
					require.NoError(t, middleware.Refund(w, r))
					again = middleware.Refund(w, r)
					w.WriteHeader(http.StatusBadGateway)
				}
			}
			h := newLimiter(t, cfg).Handler(&spy{Serve: failing})
			first := send(h, method(m))
			tok := first.Header.Get(middleware.TokenHeader)
			failed := send(h, method(m), with("X-Fail", "1"), showing(tok))
			require.ErrorIs(t, again, exact.ErrNoRefund)
			require.EqualValues(t, 1, l.Charged)
			refunded := failed.Header.Get(middleware.TokenHeader)
			require.Equal(t, tok, refunded, "the token of before, byte for byte")

			// The fallback tells what token and memory say.
			l.Fault = func(context.Context, int) error { return errEngine }
			resp := send(h, method(m), showing(refunded))
			require.Equal(t, `"contact";r=3;t=60`, resp.Header.Get("RateLimit"))

			// Whatever the handler says of caching.
			l.Fault = nil
			again = nil
			private := newLimiter(t, cfg).Handler(&spy{Serve: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "private")
				failing(w, r)
			}})
			tok = send(private, method(m), from("203.0.113.8")).Header.Get(middleware.TokenHeader)
			back := send(private, method(m), with("X-Fail", "1"), showing(tok), from("203.0.113.8"))
			require.Equal(t, []string{tok}, back.Header.Values(middleware.TokenHeader))

			// The only request that was counted, refunded: no token is left.
			l.Fault = nil
			other := send(h, method(m), with("X-Fail", "1"), from("203.0.113.9"))
			requireHeader(t, other, middleware.TokenHeader, "", "Set-Cookie", "")
		}
	}
	require.ErrorIs(t, middleware.Refund(nil, &http.Request{}), exact.ErrNoRefund)
}

func TestExactRefundOpensASpentKey(t *testing.T) {
	c := new(clock)
	l := newLedger(c)
	started, release := make(chan struct{}), make(chan struct{})
	h := newLimiter(t, paid(c, l)).Handler(&spy{Serve: func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Fail") != "" {
			close(started)
			<-release
			require.NoError(t, middleware.Refund(w, r))
		}
	}})
	done := make(chan struct{})
	go func() { defer close(done); send(h, with("X-Fail", "1")) }()
	<-started
	require.Equal(t, 4, admitted(h, 6))
	close(release)
	<-done
	require.Equal(t, 1, admitted(h, 2), "what was given back can be had")
}

// A refusal that was on its way while somebody gave back is told, and not remembered.
func TestExactRefusalDoesNotOvertakeARefund(t *testing.T) {
	c := new(clock)
	var taken atomic.Int64
	var hold atomic.Bool
	counter, release := memory.New(0, c.Now), make(chan struct{})
	held := &altered{Counter: counter, OnTake: func(ctx context.Context, call exact.Call) (exact.Verdict, error) {
		v, err := counter.Take(ctx, call)
		if taken.Add(1); hold.Load() {
			<-release // on its way
		}
		return v, err
	}}
	m := newLimiter(t, paid(c, held))
	refund := make(chan struct{})
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Refund") != "" {
			<-refund
			if err := middleware.Refund(w, r); err != nil {
				t.Error(err)
			}
		}
	}))
	require.Equal(t, 4, admitted(h, 4))
	fifth, sixth := make(chan int, 1), make(chan int, 1)
	go func() { fifth <- send(h, with("Refund", "1")).StatusCode }()
	require.Eventually(t, func() bool { return taken.Load() == 5 }, patient, time.Millisecond)
	hold.Store(true)
	go func() { sixth <- send(h).StatusCode }()
	require.Eventually(t, func() bool { return taken.Load() == 6 }, patient, time.Millisecond)
	hold.Store(false)
	close(refund)
	require.Equal(t, http.StatusOK, <-fifth)
	close(release)
	require.Equal(t, http.StatusTooManyRequests, <-sixth)
	require.Equal(t, http.StatusOK, send(h).StatusCode)
}
