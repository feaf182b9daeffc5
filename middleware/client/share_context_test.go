// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
)

// The one that pays is cancelled: the next one pays.
func TestPayerIsCancelled(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := newLimiter(t, "contact", newcomers, 100)
		const n = 10
		ctx, cancel := context.WithCancel(t.Context())
		block := make(chan struct{})
		var first atomic.Bool
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Tallystick-Proof") != "" && first.CompareAndSwap(false, true) {
				close(block)
				<-r.Context().Done() // the answer to the first proof never comes
				return
			}
			l.ServeHTTP(w, r)
		})
		tr := &Transport{Base: inMemory{h}}
		payer := make(chan error, 1)
		go func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://example.com/contact", nil)
			_, err := tr.RoundTrip(req)
			payer <- err
		}()
		<-block
		time.AfterFunc(2*time.Second, cancel)
		start := time.Now()
		require.Equal(t, map[int]int{200: n}, burst(t, tr, n, "http://example.com/contact"))
		require.Equal(t, 2*time.Second, time.Since(start))
		require.ErrorIs(t, <-payer, context.Canceled)
		require.Equal(t, 1, l.proofs)
		require.Empty(t, tr.queues.going)
	})
}

// The one that pays is served slowly: nobody waits for longer than a challenge lives.
func TestPayerIsSlow(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := newLimiter(t, "contact", newcomers, 100)
		var first atomic.Bool
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			slow := r.Header.Get("Tallystick-Proof") != "" && first.CompareAndSwap(false, true)
			if slow {
				time.Sleep(time.Hour)
			}
			l.ServeHTTP(w, r)
		})
		tr := &Transport{Base: inMemory{h}}
		var wg sync.WaitGroup
		wg.Go(func() { burst(t, tr, 1, "http://example.com/contact") })
		time.Sleep(time.Second)
		start := time.Now()
		require.Equal(t, map[int]int{200: 3}, burst(t, tr, 3, "http://example.com/contact"))
		require.Equal(t, 10*time.Second, time.Since(start))
		wg.Wait()
	})
}

// A payer who is told to wait is not waited for.
func TestPayerHasToWait(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := newLimiter(t, "contact", newcomers, 100)
		var first atomic.Bool
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Tallystick-Proof") != "" && first.CompareAndSwap(false, true) {
				time.Sleep(2 * time.Second)
				answer(429, "Retry-After", "20")(w, r) // sold out, for this one
				return
			}
			l.ServeHTTP(w, r)
		})
		tr := &Transport{Base: inMemory{h}}
		var wg sync.WaitGroup
		wg.Go(func() { burst(t, tr, 1, "http://example.com/contact") })
		time.Sleep(time.Second)
		start := time.Now()
		require.Equal(t, map[int]int{200: 3}, burst(t, tr, 3, "http://example.com/contact"))
		require.Equal(t, time.Second, time.Since(start))
		wg.Wait()
		require.Equal(t, 1, l.proofs)
	})
}

// Those who wait for a payer leave when their context ends.
func TestContextEndsSharing(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := newLimiter(t, "contact", newcomers, 100)
		tr := &Transport{Base: inMemory{l}}
		req, err := http.NewRequest(http.MethodGet, "http://example.com/contact", nil)
		require.NoError(t, err)
		_, kind := l.kind(req)
		payer := &place{of: want{originOf(req), kind}, expires: time.Now().Add(time.Minute), called: make(chan errand, 1)}
		require.Equal(t, paying, tr.queues.come(time.Now(), payer, &tr.jar))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err = tr.RoundTrip(req.WithContext(ctx))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 3*time.Second, time.Since(start))
		tr.queues.leave(time.Now(), payer, gone)
		require.Empty(t, tr.queues.going)
	})
}
