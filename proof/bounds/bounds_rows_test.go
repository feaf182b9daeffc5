// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
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

// To look costs nothing and sells nothing: no challenge and no token counts as sent, and no endpoint as named.
func TestDryRunIssuesNoChallenge(t *testing.T) {
	for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers, middleware.EveryRequest} {
		now := new(handlers.Clock)
		cfg := handlers.Challenging(now, mode)
		cfg.Challenge.Path = "/tally/"
		log := handlers.LogTo(&cfg)
		m := handlers.NewLimiter(t, cfg)
		token := handlers.Check(t, handlers.NewLimiter(t, handlers.Challenging(now, middleware.WhenExhausted)), handlers.Visitor, 5).Token()
		handlers.Allowed(t, m, handlers.Visitor, 6)
		ask := middleware.Ask{Identity: handlers.Visitor, Tokens: []string{token, handlers.Forgery(token)}, DryRun: true}
		before := m.Stats()
		for range 20 {
			require.False(t, handlers.Decided(t, m, ask).Allowed)
			now.Advance(time.Second)
		}
		require.Equal(t, before, m.Stats(), mode)
		require.Empty(t, log.Lines())
	}
}

// A dry run does not look at a proof, so the proof is good afterwards; and it charges no bought tally.
func TestDryRunRedeemsNoProof(t *testing.T) {
	for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers, middleware.EveryRequest} {
		m := handlers.NewLimiter(t, handlers.Challenging(new(handlers.Clock), mode))
		handlers.Allowed(t, m, handlers.Visitor, 6)
		ask := middleware.Ask{Identity: handlers.Visitor, Proof: handlers.Solve(t, *handlers.Check(t, m, handlers.Visitor, 1).Offered), DryRun: true}
		before := m.Stats()
		dry := handlers.Decided(t, m, ask)
		require.False(t, dry.Allowed)
		require.Empty(t, dry.Proof)
		require.Equal(t, before, m.Stats(), mode)
		ask.DryRun = false
		bought := handlers.Decided(t, m, ask)
		require.True(t, bought.Allowed)
		for range 10 { // what was bought is not charged either
			dry := handlers.Decided(t, m, middleware.Ask{Identity: handlers.Visitor, Tokens: []string{bought.Token()}, DryRun: true})
			require.Equal(t, mode != middleware.EveryRequest, dry.Allowed, mode)
		}
	}
}

// What a client shows takes as much memory and no more, however large it is.
func TestAskOfMegabytes(t *testing.T) {
	if kit.Race {
		fmt.Fprintln(os.Stderr, "SKIPPED TestAskOfMegabytes: the race detector allocates on its own; go test counts them")
		t.Skip("the race detector allocates on its own")
	}
	m := handlers.NewLimiter(t, handlers.Challenging(new(handlers.Clock), middleware.WhenExhausted))
	token := handlers.Check(t, m, handlers.Visitor, 1).Token()
	for name, ask := range map[string]func(n int) middleware.Ask{
		"one line":         func(n int) middleware.Ask { return middleware.Ask{Tokens: []string{strings.Repeat("e", n)}} },
		"a line of commas": func(n int) middleware.Ask { return middleware.Ask{Tokens: []string{strings.Repeat(",", n)}} },
		"many lines":       func(n int) middleware.Ask { return middleware.Ask{Tokens: slices.Repeat([]string{"e.e.e"}, n/10)} },
		"many tokens":      func(n int) middleware.Ask { return middleware.Ask{Tokens: slices.Repeat([]string{token}, n/100)} },
		"a proof":          func(n int) middleware.Ask { return middleware.Ask{Proof: strings.Repeat("e", n)} },
		"proofs":           func(n int) middleware.Ask { return middleware.Ask{Proof: strings.Repeat("e~0,", n/4)} },
		"a blank proof":    func(n int) middleware.Ask { return middleware.Ask{Proof: strings.Repeat(" ", n)} },
	} {
		allocs := func(n int) float64 {
			shown := ask(n)
			shown.Identity = handlers.Visitor
			return testing.AllocsPerRun(5, func() { _, _ = m.Decide(t.Context(), shown) })
		}
		require.LessOrEqual(t, allocs(10<<20), allocs(4<<10)+50, name) // a collection empties pools
	}
}

// An Answer may be asked and told anything from any goroutine, while the configuration
// changes; in the end what was said last holds, once.
func TestAnswerIsToldAnythingByAnybody(t *testing.T) {
	for seed := range uint64(20) {
		now := new(handlers.Clock)
		m := handlers.NewLimiter(t, handlers.Login(now))
		a := handlers.Check(t, m, handlers.Visitor, 2)
		var all sync.WaitGroup
		var settled atomic.Int64
		for i := range 8 {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			all.Go(func() {
				for range 20 {
					switch rnd.IntN(6) {
					case 0:
						a.Charge(true)
					case 1:
						a.Charge(false)
					case 2:
						require.NotEmpty(t, a.Token())
					case 3:
						for range a.Fields() {
						}
					case 4:
						if a.Settle(3) == nil {
							settled.Add(1)
						}
					default:
						_ = m.Reconfigure(handlers.Login(now))
					}
				}
			})
		}
		all.Wait()
		if a.Settle(3) == nil {
			settled.Add(1)
		}
		require.EqualValues(t, 1, settled.Load())
		a.Charge(true)
		now.Advance(11 * time.Second)
		limits := handlers.Peeked(t, m, handlers.Visitor).Limits()
		require.EqualValues(t, 10_000-3, limits[0].Remaining)
		require.EqualValues(t, 5-3, limits[1].Remaining)
		a.Charge(false)
		require.EqualValues(t, 5, handlers.Peeked(t, m, handlers.Visitor).Limits()[1].Remaining)
	}
}

func TestMain(m *testing.M) { handlers.Main(m) }
