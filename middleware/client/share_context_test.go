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

// The one that pays is cancelled: the next one pays.
func TestPayerIsCancelled(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		l := newLimiter(t, "contact", newcomers, 100)
		const n = 10
		ctx, cancel := context.WithCancel(t.Context())
		block := make(chan struct{})
		h := firstProof(l, func(_ http.ResponseWriter, r *http.Request) bool {
			close(block)
			<-r.Context().Done() // the answer to the first proof never comes
			return true
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

// firstProof has another answer the first proof; if it does not, and all else, the limiter does.
func firstProof(l *limiter, another func(http.ResponseWriter, *http.Request) bool) http.Handler {
	var first atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Tallystick-Proof") == "" || !first.CompareAndSwap(false, true) || !another(w, r) {
			l.ServeHTTP(w, r)
		}
	})
}

// No request waits for a payer longer than a challenge lives, nor for a payer that is told to
// wait.
func TestPayerIsNotWaitedFor(t *testing.T) {
	for name, test := range map[string]struct {
		payer func(http.ResponseWriter, *http.Request) bool
		wait  time.Duration
	}{
		"served slowly": {func(http.ResponseWriter, *http.Request) bool {
			time.Sleep(time.Hour)
			return false
		}, 10 * time.Second},
		"sold out, for this one": {func(w http.ResponseWriter, r *http.Request) bool {
			time.Sleep(2 * time.Second)
			answer(429, "Retry-After", "20")(w, r)
			return true
		}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				l := newLimiter(t, "contact", newcomers, 100)
				tr := &Transport{Base: inMemory{firstProof(l, test.payer)}}
				var wg sync.WaitGroup
				wg.Go(func() { burst(t, tr, 1, "http://example.com/contact") })
				time.Sleep(time.Second)
				start := time.Now()
				require.Equal(t, map[int]int{200: 3}, burst(t, tr, 3, "http://example.com/contact"))
				require.Equal(t, test.wait, time.Since(start))
				wg.Wait()
				require.Equal(t, 1, l.proofs)
			})
		})
	}
}

// Requests that wait for a payer leave when their context ends.
func TestContextEndsSharing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		l := newLimiter(t, "contact", newcomers, 100)
		tr := &Transport{Base: inMemory{l}}
		req := request(t, http.MethodGet, "http://example.com/contact", nil)
		_, kind := l.kind(req)
		payer := &place{of: want{originOf(req), kind}, expires: time.Now().Add(time.Minute), called: make(chan role, 1)}
		require.Equal(t, paying, tr.queues.come(time.Now(), payer, &tr.jar))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err := tr.RoundTrip(req.WithContext(ctx))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 3*time.Second, time.Since(start))
		tr.queues.leave(time.Now(), payer, gone)
		require.Empty(t, tr.queues.going)
	})
}

// kind is what a refusal of l is of.
func (l *limiter) kind(r *http.Request) (int, uint64) {
	w := httptest.NewRecorder()
	served := r.Clone(r.Context())
	served.Body = http.NoBody
	status := l.decide(w, served)
	return status, kindOf(w.Header(), routeOf(r))
}
