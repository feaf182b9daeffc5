// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/kit"
)

// A shop is a server that says and does what it likes.
type shop struct {
	*limiter
	sell   func(w http.ResponseWriter, n int) // answers the nth proof
	refuse func(w http.ResponseWriter, n int) // answers the nth request without

	mu            sync.Mutex
	sends, proofs map[string]int // by request
	n             int
}

func newShop(t testing.TB) *shop {
	return &shop{limiter: newLimiter(t, "contact", newcomers, 1), sends: map[string]int{}, proofs: map[string]int{}}
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	proved := r.Header.Get(pow.ProofField) != ""
	s.mu.Lock()
	s.n++
	n := s.n
	s.sends[r.Header.Get("Id")]++
	if proved {
		s.proofs[r.Header.Get("Id")]++
	}
	s.mu.Unlock()
	w.Header().Set("RateLimit-Policy", `"contact";q=5`)
	if proved {
		s.sell(w, n)
	} else {
		s.refuse(w, n)
	}
}

// with answers with a status, and fields in pairs.
func with(status int, fields ...string) func(http.ResponseWriter, int) {
	return func(w http.ResponseWriter, _ int) { answer(status, fields...)(w, nil) }
}

// tally answers with a new tally.
func tally(fields ...string) func(http.ResponseWriter, int) {
	return func(w http.ResponseWriter, n int) {
		w.Header().Set(tokenField, ownToken("contact", fmt.Sprint(n), 1))
		answer(200, fields...)(w, nil)
	}
}

// ask answers with a fresh challenge.
func (s *shop) ask(status int, fields ...string) func(http.ResponseWriter, int) {
	return func(w http.ResponseWriter, _ int) {
		s.challenge(w)
		answer(status, fields...)(w, nil)
	}
}

// Whatever a server promises, it gets no more of a request than doc.go says: twice
// MaxAttempts sends and MaxSolves proofs.
func TestHostileServerIsSentNoMore(t *testing.T) {
	const n = 60
	s := newShop(t)
	much := []string{"RateLimit", `"contact";r=1000000`}
	for name, c := range map[string]struct {
		sell, refuse func(http.ResponseWriter, int)
		ok           int
	}{
		"sells tallies that are good for nothing":               {tally(much...), s.ask(429), n},
		"and forgets that it has sold them":                     {tally(much...), s.ask(403), n},
		"sells, and does not say how much":                      {tally(), s.ask(429), n},
		"sells what is spent":                                   {tally("RateLimit", `"contact";r=0`), s.ask(429), n},
		"is paid for nothing":                                   {with(200, much...), s.ask(403), n},
		"is never satisfied":                                    {s.ask(403, much...), s.ask(403, much...), 0},
		"nor with a wait":                                       {s.ask(429, "Retry-After", "1"), s.ask(429, "Retry-After", "1"), 0},
		"fails when it is paid":                                 {with(500), s.ask(429), 0},
		"hands out tallies with each refusal":                   {s.tally(429, much...), s.tally(429, much...), 0},
		"sells, and then has nothing for sale":                  {tally(much...), with(429, "Retry-After", "1"), 0},
		"lets in clients that look, but never clients that pay": {s.ask(403), sometimes(tally(much...), s.ask(403)), -1},
		"lets in some, and says that there is more":             {sometimes(tally(much...), s.ask(403)), sometimes(tally(much...), s.ask(429)), -1},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				s := &shop{limiter: s.limiter, sell: c.sell, refuse: c.refuse, sends: map[string]int{}, proofs: map[string]int{}}
				tr := &Transport{Base: inMemory{later(s)}, Workers: 1}
				start := time.Now()
				statuses := herd(t.Context(), t, tr, n, "http://example.com/contact", nil)
				if c.ok >= 0 {
					require.Equal(t, c.ok, statuses[200], statuses)
				}
				most, proofs, all := 0, 0, 0
				for id := range s.sends {
					most, proofs, all = max(most, s.sends[id]), max(proofs, s.proofs[id]), all+s.sends[id]
				}
				require.Len(t, s.sends, n)
				require.LessOrEqual(t, most, 2*defaultAttempts)
				require.LessOrEqual(t, proofs, defaultSolves)
				require.Less(t, time.Since(start), time.Minute)
				require.Empty(t, tr.queues.going)
				t.Logf("%v, %d sends, at most %d for a request, %v", statuses, all, most, time.Since(start))
			})
		})
	}
}

// tally answers with a tally and a challenge.
func (s *shop) tally(status int, fields ...string) func(http.ResponseWriter, int) {
	return func(w http.ResponseWriter, n int) {
		w.Header().Set(tokenField, ownToken("contact", fmt.Sprint(n), 1))
		s.ask(status, fields...)(w, n)
	}
}

// sometimes answers one way or the other.
func sometimes(a, b func(http.ResponseWriter, int)) func(http.ResponseWriter, int) {
	return func(w http.ResponseWriter, n int) {
		if rand.IntN(2) == 0 {
			a(w, n)
		} else {
			b(w, n)
		}
	}
}

// later brings requests in no order.
func later(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		h.ServeHTTP(w, r)
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
	})
}

// All end at the moment when their context does, wherever they are: sending,
// waiting, looking, paying. Nothing is left but what the server has sold.
func TestContextEndsAHerd(t *testing.T) {
	why := errors.New("the user went home")
	for seed := range 20 {
		kit.Bubble(t, func(t *testing.T) {
			l := newLimiter(t, "contact", newcomers, 20)
			tr := &Transport{Base: inMemory{prompt(l)}, Workers: 1}
			ctx, cancel := context.WithCancelCause(t.Context())
			end := time.Duration(5+10*seed) * time.Millisecond
			time.AfterFunc(end, func() { cancel(why) })
			start := time.Now()
			statuses := herd(ctx, t, tr, 300, "http://example.com/contact", nil)
			require.True(t, statuses[0] == 0 || context.Cause(ctx) != nil, "%v", statuses)
			require.Equal(t, end, time.Since(start))
			require.Empty(t, tr.queues.going)
			require.NoError(t, tr.solver.take(t.Context()))
			tr.solver.pass()
			require.Equal(t, map[int]int{200: 1}, burst(t, tr, 1, "http://example.com/contact"), "the Transport is as good as before")
		})
	}
}

// prompt serves requests after a while, and those whose context ends not at all.
func prompt(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(10 * time.Millisecond):
			h.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})
}
