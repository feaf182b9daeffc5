// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/client"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
)

// A tube carries requests to a handler, in a bubble, and counts them.
type tube struct {
	handler http.Handler
	delay   func() time.Duration // each way

	mu               sync.Mutex
	sends            int
	proofs, accepted int // requests with a proof, and those of them that were served
}

func (w *tube) RoundTrip(r *http.Request) (*http.Response, error) {
	proved := r.Header.Get(pow.ProofField) != ""
	w.mu.Lock()
	w.sends++
	if proved {
		w.proofs++
	}
	w.mu.Unlock()
	served := r.Clone(r.Context())
	served.RemoteAddr, served.Body, served.RequestURI = "203.0.113.1:4711", http.NoBody, r.URL.Path
	time.Sleep(w.delay())
	recorded := httptest.NewRecorder()
	w.handler.ServeHTTP(recorded, served)
	resp := recorded.Result()
	if proved && resp.StatusCode == http.StatusOK {
		w.mu.Lock()
		w.accepted++
		w.mu.Unlock()
	}
	time.Sleep(w.delay())
	return resp, nil
}

type herd struct {
	ok      int
	refused map[string]int
	took    time.Duration
}

func stampede(t testing.TB, n int, tr *client.Transport) herd {
	t.Helper()
	var mu sync.Mutex
	h := herd{refused: map[string]int{}}
	tr.Observe = func(e client.Event) {
		if e.Action == "returning" {
			mu.Lock()
			h.refused[e.Reason]++
			mu.Unlock()
		}
	}
	start := time.Now()
	handlers.InParallel(n, func(int) {
		r, err := http.NewRequest(http.MethodPost, "http://example.com/contact", nil)
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
		mu.Lock()
		defer mu.Unlock()
		if resp.StatusCode == http.StatusOK {
			h.ok++
		}
	})
	h.took = time.Since(start)
	return h
}

// sending chooses fields that the client does not read: it goes on as with Quiet.
func sending(chosen middleware.Fields) func(*middleware.Config) {
	return func(cfg *middleware.Config) { cfg.Fields = chosen }
}

// A thousand requests at once through one client. Each needs a send to meet the refusal and one to be let in; a tally
// needs one more, by which the next that waits asks what it costs now.
func TestHerd(t *testing.T) {
	const n = 1000
	steady := func() time.Duration { return 10 * time.Millisecond }
	uneven := func() time.Duration { return time.Duration(1+rand.IntN(100)) * time.Millisecond }
	for name, test := range map[string]struct {
		mode    middleware.Mode
		quota   int64
		quiet   bool
		change  func(*middleware.Config)
		maxWork uint64
		delay   func() time.Duration
		ok      int
		bought  [2]int
		sends   int // at most
		reason  string
	}{
		"Newcomers, one tally for all": {mode: middleware.Newcomers, quota: 2000, ok: n, bought: [2]int{1, 1}, sends: 2 * n},
		"Newcomers, 20 to a tally":     {mode: middleware.Newcomers, quota: 20, ok: n, bought: [2]int{50, 50}, sends: 2200},
		"Newcomers, the price rises": {
			mode: middleware.Newcomers, quota: 20, ok: n, bought: [2]int{50, 50}, sends: 2200,
			change: func(cfg *middleware.Config) { cfg.Challenge.Crowd = 16 },
		},
		"uneven":                {mode: middleware.Newcomers, quota: 20, delay: uneven, ok: n, bought: [2]int{50, 55}, sends: 2400},
		"quiet":                 {mode: middleware.Newcomers, quota: 20, quiet: true, ok: n, bought: [2]int{50, 55}, sends: 3000},
		"X-RateLimit alone":     {mode: middleware.Newcomers, quota: 20, change: sending(middleware.XRateLimitInSeconds), ok: n, bought: [2]int{50, 55}, sends: 3000},
		"WhenExhausted":         {mode: middleware.WhenExhausted, quota: 100, ok: n, bought: [2]int{9, 9}, sends: 2000},
		"WhenExhausted, uneven": {mode: middleware.WhenExhausted, quota: 100, delay: uneven, ok: n, bought: [2]int{9, 10}, sends: 2100},
		"EveryRequest":          {mode: middleware.EveryRequest, quota: 2000, ok: n, bought: [2]int{n, n}, sends: 2 * n},
		"one to a tally":        {mode: middleware.Newcomers, quota: 1, ok: n, bought: [2]int{n, n}, sends: 3100},
		"too dear after some": {
			mode: middleware.Newcomers, quota: 20, maxWork: 64,
			change: func(cfg *middleware.Config) { cfg.Challenge.Crowd = 8 },
			ok:     -1, bought: [2]int{16, 24}, sends: 2200, reason: "too-much-work",
		},
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			cfg := handlers.Challenging(new(handlers.Clock), test.mode)
			cfg.Limits[0].Quota, cfg.Limits[0].Window, cfg.Quiet = test.quota, time.Hour, test.quiet
			cfg.Challenge.Crowd, cfg.Challenge.Path, cfg.MaxClients = 255, "", 0
			if test.change != nil {
				test.change(&cfg)
			}
			cfg.Now = time.Now
			handler, _ := handlers.Limited(t, cfg)
			w := &tube{handler: handler, delay: steady}
			if test.delay != nil {
				w.delay = test.delay
			}
			h := stampede(t, n, &client.Transport{Base: w, MaxWait: -1, MaxWork: test.maxWork, Workers: 1})
			t.Logf("%d ok, %d sends, %d proofs, %d bought, %v, refused %v", h.ok, w.sends, w.proofs, w.accepted, h.took, h.refused)
			ok := test.ok
			if ok < 0 {
				ok = int(test.quota) * w.accepted
			}
			require.Equal(t, ok, h.ok)
			if test.reason == "" {
				require.Empty(t, h.refused)
			} else {
				require.Equal(t, map[string]int{test.reason: n - ok}, h.refused)
			}
			require.GreaterOrEqual(t, w.accepted, test.bought[0])
			require.LessOrEqual(t, w.accepted, test.bought[1])
			require.LessOrEqual(t, w.sends, test.sends)
		})
	}
}

// Two policies that sell around one handler: what is left of the tighter one says
// how many are called, and a tally is bought of the one that refuses.
func TestHerdBeforeTwoPolicies(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		policy := func(name string, quota int64) *middleware.Middleware {
			cfg := handlers.Challenging(new(handlers.Clock), middleware.Newcomers)
			cfg.Policy, cfg.Limits[0].Quota, cfg.Limits[0].Window = name, quota, time.Hour
			cfg.Challenge.Crowd, cfg.Challenge.Path, cfg.Now = 255, "", time.Now
			return handlers.NewLimiter(t, cfg)
		}
		const n = 400
		w := &tube{handler: policy("site", 2000).Handler(policy("contact", 20).Handler(new(handlers.Spy)))}
		w.delay = func() time.Duration { return 10 * time.Millisecond }
		h := stampede(t, n, &client.Transport{Base: w, MaxWait: -1, Workers: 1})
		t.Logf("%d ok, %d sends, %d proofs, %v, refused %v", h.ok, w.sends, w.proofs, h.took, h.refused)
		require.Equal(t, n, h.ok)
		require.Equal(t, 1+n/20, w.proofs)
		require.LessOrEqual(t, w.sends, 3*n+100, "one to meet each policy, and one to be let in")
	})
}

// Windows that roll over while requests wait: who looks finds room, and nothing is bought that is not needed.
func TestHerdFindsRoomAfterAll(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		cfg := handlers.Challenging(new(handlers.Clock), middleware.WhenExhausted)
		cfg.Limits[0].Quota, cfg.Limits[0].Window, cfg.Challenge.Path, cfg.Now = 50, 2*time.Second, "", time.Now
		handler, _ := handlers.Limited(t, cfg)
		var slow atomic.Bool
		slow.Store(true)
		w := &tube{handler: handler, delay: func() time.Duration { return 100 * time.Millisecond }}
		// The first proof is not answered until the next window has begun.
		w.handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			handler.ServeHTTP(rw, r)
			if r.Header.Get(pow.ProofField) != "" && slow.CompareAndSwap(true, false) {
				time.Sleep(2 * time.Second)
			}
		})
		h := stampede(t, 140, &client.Transport{Base: w, MaxWait: -1, Workers: 1})
		t.Logf("%d ok, %d sends, %d proofs, %v, refused %v", h.ok, w.sends, w.proofs, h.took, h.refused)
		require.Equal(t, 140, h.ok)
		require.Equal(t, 1, w.proofs, "50 of the first window, 50 of the next, and the rest of what was bought")
	})
}
