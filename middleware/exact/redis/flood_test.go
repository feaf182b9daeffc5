// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/exactkit/front"
)

// A flood that meets a server which hardly answers is load: 503, and never the fallback.
func TestFloodIsNoOutage(t *testing.T) {
	s := startServer(t)
	p := exactkit.StartProxy(t, s.Addr())
	counter := open(t, throughProxy(p))
	site := front.NewSite(t, counter, middleware.FailOpen, limit, deadline)
	site.Ask("warm")
	p.Set(exactkit.Ways{Delay: deadline / 4})
	var overloaded, degraded, admitted atomic.Int64
	var wg sync.WaitGroup
	for n := range 2000 {
		wg.Go(func() {
			status, fallback := site.Ask(fmt.Sprint("flood", n))
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
	require.Zero(t, site.Log.Count("does not answer"))
	p.Set(exactkit.Ways{})
	site.Recovers(t)
	t.Logf("%d overloaded, %d admitted, %d degraded", overloaded.Load(), admitted.Load(), degraded.Load())
}

// A flood on a server that is frozen keeps its deadlines too, though the client has no
// more places for what is unanswered.
func TestFloodOnAFrozenServerKeepsDeadlines(t *testing.T) {
	s, counter := opened(t)
	site := front.NewSite(t, counter, middleware.FailOpen, limit, deadline)
	site.Ask("warm")
	s.Freeze()
	defer s.Thaw()
	before := runtime.NumGoroutine()
	var degraded, most atomic.Int64
	var wg sync.WaitGroup
	for w := range 250 {
		wg.Go(func() {
			// After a second it is an outage.
			for n := 0; n < 20 || degraded.Load() == 0; n++ {
				if _, fallback := site.Ask(fmt.Sprint("flood", w, "-", n)); fallback {
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

// A silent server holds a fixed number of calls: the next one is told at once that it
// was not counted.
func TestUnansweredCallsHaveABound(t *testing.T) {
	s := startServer(t)
	p := exactkit.StartProxy(t, s.Addr())
	counter := open(t, throughProxy(p))
	policy := exactkit.PerYear(t, 5)
	exactkit.Peek(t, counter, exact.Call{Key: "k", Cost: 1, Policy: policy})
	p.Set(exactkit.Ways{Swallow: true})
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
