// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// together lets requests pass only when n of them have come, then all.
func together(n int, h http.Handler) http.Handler {
	var come atomic.Int32
	gate := make(chan struct{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if come.Add(1) == int32(n) {
			close(gate)
		}
		<-gate
		h.ServeHTTP(w, r)
	})
}

func TestOneBuysForAll(t *testing.T) {
	for name, quiet := range map[string]bool{"by policy": false, "quiet, by route": true} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				const n = 50
				l := newLimiter(t, "contact", newcomers, n)
				l.quiet, l.delay = quiet, time.Second
				tr := &Transport{Base: inMemory{together(n, l)}}
				require.Equal(t, map[int]int{200: n}, burst(t, tr, n, "http://example.com/contact"))
				require.Equal(t, 1, l.proofs)
				require.Equal(t, 2*n, l.requests)
				require.Empty(t, tr.queues.going)
			})
		})
	}
}

// On real sockets, and with the race detector.
func TestOneBuysForAllOverTheNetwork(t *testing.T) {
	const n = 50
	l := newLimiter(t, "contact", newcomers, n)
	s := httptest.NewServer(together(n, l))
	defer s.Close()
	base := s.Client().Transport.(*http.Transport)
	base.MaxIdleConnsPerHost = n
	tr := &Transport{Base: base}
	require.Equal(t, map[int]int{200: n}, burst(t, tr, n, s.URL))
	require.Equal(t, 1, l.proofs)
}

// A tally that is spent by the burst is followed by another, one at a time.
func TestBurstLargerThanATally(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const n = 30
		l := newLimiter(t, "contact", newcomers, 10)
		l.delay = time.Second
		tr := &Transport{Base: inMemory{together(n, l)}, MaxAttempts: 2}
		require.Equal(t, map[int]int{200: n}, burst(t, tr, n, "http://example.com/contact"))
		require.Equal(t, 3, l.proofs)
	})
}

// A proof for every request: what one has paid says so to the others.
func TestEveryRequestPaysForItself(t *testing.T) {
	for name, silent := range map[string]bool{"with tokens": false, "without tokens": true} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				const n = 20
				l := newLimiter(t, "feedback", everyRequest, 1000)
				l.silent, l.delay = silent, time.Second
				tr := &Transport{Base: inMemory{together(n, l)}}
				start := time.Now()
				require.Equal(t, map[int]int{200: n}, burst(t, tr, n, "http://example.com/feedback"))
				require.Equal(t, 2*time.Second, time.Since(start), "the first, then all others at once")
				require.Equal(t, n, l.proofs)
				require.Equal(t, 2*n, l.requests)
			})
		})
	}
}

func TestPurchasesOfDifferentKindsAreApart(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		a, b := newLimiter(t, "a", newcomers, 100), newLimiter(t, "b", newcomers, 100)
		a.delay = time.Hour // a handler, not a purchase, that takes long
		mux := http.NewServeMux()
		mux.Handle("/a", a)
		mux.Handle("/b", b)
		tr := &Transport{Base: inMemory{mux}}
		var wg sync.WaitGroup
		wg.Go(func() { burst(t, tr, 1, "http://example.com/a") })
		time.Sleep(time.Minute)
		start := time.Now()
		require.Equal(t, map[int]int{200: 1}, burst(t, tr, 1, "http://example.com/b"))
		require.Zero(t, time.Since(start))
		wg.Wait()
	})
}

// A refusal that arrives after another's purchase needs no purchase.
func TestLateRefusal(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		l := newLimiter(t, "contact", newcomers, 100)
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			l.ServeHTTP(w, r)
			if r.Header.Get("Slow") != "" && len(r.Header.Values(tokenField)) == 0 {
				time.Sleep(5 * time.Second)
			}
		})
		tr := &Transport{Base: inMemory{h}}
		var wg sync.WaitGroup
		wg.Go(func() {
			req, _ := http.NewRequest(http.MethodGet, "http://example.com/contact", nil)
			req.Header.Set("Slow", "yes")
			resp, err := tr.RoundTrip(req)
			if err != nil || resp.StatusCode != 200 {
				t.Error(resp, err)
			}
		})
		time.Sleep(time.Second)
		require.Equal(t, map[int]int{200: 1}, burst(t, tr, 1, "http://example.com/contact"))
		wg.Wait()
		require.Equal(t, 1, l.proofs)
	})
}

// Purchases on one policy of a site are no reason to wait on another.
func TestBusyPolicyBesideAnExhaustedOne(t *testing.T) {
	busy, contact := newLimiter(t, "feedback", everyRequest, 1<<30), newLimiter(t, "contact", whenExhausted, 1)
	mux := http.NewServeMux()
	mux.Handle("/feedback", busy)
	mux.Handle("/contact", contact)
	tr := &Transport{Base: inMemory{mux}}
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			burst(t, tr, 1, "http://example.com/feedback")
		}
	})
	for range 20 {
		require.Equal(t, map[int]int{200: 1}, burst(t, tr, 1, "http://example.com/contact"))
	}
	stop.Store(true)
	wg.Wait()
	require.Equal(t, 40-1, contact.requests)
}

func TestKinds(t *testing.T) {
	of := func(route uint64, policies ...string) uint64 {
		return kindOf(http.Header{"Ratelimit-Policy": policies}, route)
	}
	require.Equal(t, of(1, `"a";q=5`), of(2, `"a";q=5`))
	require.NotEqual(t, of(1, `"a";q=5`), of(1, `"b";q=5`))
	require.NotEqual(t, of(1, `"a";q=5`), of(1, `"a";q=5`, `"b";q=5`))
	require.NotEqual(t, of(1), of(2))
	require.Equal(t, of(1), of(1))
}

// A free turn is not given to a request that has gone.
func TestTurn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var tn turn
	for range 50 {
		require.ErrorIs(t, tn.take(ctx), context.Canceled)
	}
	require.NoError(t, tn.take(t.Context()))
	tn.pass()
}
