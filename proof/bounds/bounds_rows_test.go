// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"fmt"
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
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/players"
	"github.com/tallystick/tallystick/proof/truth"
	"github.com/tallystick/tallystick/storeless"
)

// Rows of the table of bounds that have no threat of their own. Each says no less than what happens.

// sender is a client with several requests under way, which keeps the token of the answer to the request
// that it sent last, as package client does.
type sender struct {
	sent, kept int // numbers of requests, from 1; 0: none
	token      string
}

type underway struct {
	number        int
	shown, brings string
	served        bool
}

func (s *sender) send() *underway {
	s.sent++
	return &underway{number: s.sent, shown: s.token}
}

func (s *sender) receive(u *underway) {
	if u.number > s.kept && u.brings != "" {
		s.kept, s.token = u.number, u.brings
	}
}

// With B requests under way it gets B·L of those that it sends within a window, however late answers are
// and whatever instances serve them. Where costs differ that is not so.
func TestRequestsAtOnce(t *testing.T) {
	const L, N, B = 5, 4, 2
	t.Run("by chance", func(t *testing.T) {
		most := 0
		for seed := range uint64(100) {
			instances, r, passed := handlers.Fleet(t, N, handlers.Contact(new(handlers.Clock))), handlers.Random(seed), 0
			var s sender
			var flying []*underway
			for range 200 {
				if i := r.IntN(B); i >= len(flying) {
					flying = append(flying, s.send())
				} else if u := flying[i]; u.served {
					s.receive(u)
					flying = append(flying[:i], flying[i+1:]...)
				} else {
					resp := handlers.Send(instances[r.IntN(N)], handlers.Showing(u.shown))
					u.served, u.brings = true, handlers.TokenIn(resp)
					if resp.StatusCode == http.StatusOK {
						passed++
					}
				}
			}
			require.LessOrEqual(t, passed, B*L, "seed %d", seed)
			most = max(most, passed)
		}
		require.Equal(t, B*L, most)
	})
	t.Run("costs that differ", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Cost = handlers.CostOf
		instances := handlers.Fleet(t, 2*L, cfg)
		var s sender
		used := 0
		for n := range L { // a dear request and a cheap one, and the cheap one is sent last
			dear, cheap := s.send(), s.send()
			for i, u := range []*underway{dear, cheap} {
				cost := 1
				if u == dear {
					cost = L - n
				}
				resp := handlers.RequireStatus(t, http.StatusOK, handlers.Send(instances[2*n+i], handlers.Showing(u.shown), handlers.Costing(int64(cost))))
				u.brings, used = handlers.TokenIn(resp), used+cost
			}
			s.receive(dear)
			s.receive(cheap)
		}
		require.Equal(t, L*(L+1)/2+L, used)
		require.Greater(t, used, B*L+B-1, "only (N+C)·L bounds it")
	})
}

func TestManyAddresses(t *testing.T) {
	const L = 5
	n := truth.Instances{N: 3}
	dropped := func(from []string) int64 {
		a := &players.Attacker{Fleet: fleet.New(3, handlers.Contact(nil)), From: from}
		a.Drop()
		return a.Gained().Admitted
	}
	var v4, v6 []string
	for i := range 10 {
		v4 = append(v4, fleet.V4(i))
	}
	for net := range 2 {
		for i := range 9 * 9 { // of each of nine /56 nine /64
			v6 = append(v6, fmt.Sprintf("[2001:db8:%x:%x::1]:1", net, i/9<<8|i%9))
		}
	}
	require.Equal(t, n.Drops(10*L), dropped(v4), "ten of IPv4")
	require.Equal(t, n.Drops(2*truth.Net48*L), dropped(v6), "two /48 of a registry's member")
}

// Each proof that is shown in a window admits one request on each instance in it, whenever it was solved.
func TestEveryRequestAdmitsWhatIsShown(t *testing.T) {
	const L, N = 5, 3
	now := new(handlers.Clock)
	var sites []*handlers.Site
	for range N {
		sites = append(sites, handlers.NewSite(t, handlers.Challenging(now, middleware.EveryRequest)))
	}
	now.Advance(53 * time.Second)
	var proofs []string
	for range L + 1 {
		proofs = append(proofs, handlers.Solved(t, handlers.Fetched(sites[0])))
	}
	now.Advance(7 * time.Second) // in the next window, in which none is solved
	shown := func(proofs []string) (passed int) {
		for range 2 {
			for _, s := range sites {
				for _, proof := range proofs {
					passed += handlers.Admitted(s, 1, handlers.Proving(proof))
				}
			}
		}
		return passed
	}
	require.Equal(t, N*2, shown(proofs[:2]), "(N+C)·S")
	require.Equal(t, N*(L-2), shown(proofs), "(N+C)·L in all")
}

// F counts tallies of all buyers: one client can use what four addresses buy, unless tallies are bound.
func TestTalliesOfOthersCount(t *testing.T) {
	const L = 5
	for _, bound := range []bool{false, true} {
		cfg := handlers.Challenging(new(handlers.Clock), middleware.Newcomers)
		cfg.Challenge.BindOwn = bound
		h, passed := handlers.NewSite(t, cfg), 0
		for i := range 4 {
			token := handlers.Bought(t, h, handlers.From(fmt.Sprintf("198.51.100.%d", i)))
			passed += handlers.Admitted(h, 2*L, handlers.From("203.0.113.9"), handlers.Showing(token))
		}
		require.Equal(t, map[bool]int{false: 4 * L, true: 0}[bound], passed)
	}
}

// What the permitted skew does: where a clock is ahead its window begins early, and an instance whose clock is
// behind takes that window from the token. So in one minute of the true time each may admit two fixed windows.
func TestFixedWindowOfTwoClocks(t *testing.T) {
	const L = 60
	const skew = 5 * time.Second
	play := func(t *testing.T, algorithm storeless.Algorithm, instances int) (passed int) {
		now := new(handlers.Clock) // the true time, which the last instance has
		var all []http.Handler
		for i := range instances {
			cfg := handlers.Contact(now)
			cfg.Limits = []middleware.Limit{{Quota: L, Window: time.Minute, Algorithm: algorithm}}
			if i < instances-1 {
				cfg.Now = func() time.Time { return now.Now().Add(skew) }
			}
			h, _ := handlers.Limited(t, cfg)
			all = append(all, h)
		}
		now.Advance(time.Second)
		for _, h := range all {
			passed += handlers.Admitted(h, 2*L)
		}
		now.Advance(time.Minute - time.Second - time.Millisecond)
		early := handlers.TokenIn(handlers.Send(all[0]))
		passed++
		for _, h := range all {
			passed += handlers.Admitted(h, 2*L)
			passed += handlers.Admitted(h, 2*L, handlers.Showing(early))
		}
		return passed
	}
	for n := 2; n <= 3; n++ {
		require.Equal(t, 2*n*L-1, play(t, middleware.FixedWindow, n), "%d instances", n)
		require.Equal(t, n*L+(n-1)*4, play(t, storeless.SlidingWindow, n), "what weighs no more: L·D/W, less one, where the clock is ahead")
	}
}

func TestMain(m *testing.M) { handlers.Main(m) }

// A tube carries requests to a handler, in a bubble, and counts them.
type tube struct {
	handler http.Handler
	delay   func() time.Duration // each way

	mu               sync.Mutex
	sends            int
	proofs, accepted int // requests with a proof, and how many of them were served
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
	kit.Together(n, func(int) {
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
		"X-RateLimit alone":     {mode: middleware.Newcomers, quota: 20, change: func(cfg *middleware.Config) { cfg.Fields = middleware.XRateLimitInSeconds }, ok: n, bought: [2]int{50, 55}, sends: 3000},
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

// Windows that roll over while requests wait: a client that looks finds room, and nothing is bought that is not needed.
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
