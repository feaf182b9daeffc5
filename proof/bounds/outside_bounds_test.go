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
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
)

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

// A dry run does not look at a proof, so the proof is good afterwards.
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
		require.True(t, handlers.Decided(t, m, ask).Allowed)
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

// A line that is far too long is no list of proofs, and nothing is looked for in it.
func TestProofInALineThatIsTooLong(t *testing.T) {
	m := handlers.NewLimiter(t, handlers.Challenging(new(handlers.Clock), middleware.EveryRequest))
	proof := handlers.Solve(t, *handlers.Check(t, m, handlers.Visitor, 1).Offered)
	for _, long := range []string{strings.Repeat(" ", 8<<10) + proof, proof + "," + strings.Repeat("e", 8<<10)} {
		require.False(t, handlers.Decided(t, m, middleware.Ask{Identity: handlers.Visitor, Proof: long}).Allowed)
		require.NotEqual(t, http.StatusOK, handlers.Send(m.Handler(new(handlers.Spy)), handlers.Proving(long)).StatusCode)
	}
	require.True(t, handlers.Decided(t, m, middleware.Ask{Identity: handlers.Visitor, Proof: strings.Repeat(" ", 1<<10) + proof}).Allowed)
}

// Of any number of wrong passwords at once no more than the quota are tried, and each is
// counted: said, forgotten, or never said because the program has panicked.
func TestOutcomesOutsideCountWhateverIsSaid(t *testing.T) {
	for name, after := range map[string]func(middleware.Answer){
		"said":      func(a middleware.Answer) { a.Charge(true) },
		"twice":     func(a middleware.Answer) { a.Charge(true); a.Charge(true) },
		"forgotten": func(middleware.Answer) {},
		"panics": func(middleware.Answer) {
			defer func() { _ = recover() }()
			panic("no database")
		},
		"retracted": func(a middleware.Answer) { a.Charge(false); a.Charge(true) },
	} {
		t.Run(name, func(t *testing.T) {
			now := new(handlers.Clock)
			m := handlers.NewLimiter(t, handlers.Login(now))
			var tried atomic.Int64
			kit.Together(1000, func(int) {
				if a, err := m.Decide(t.Context(), middleware.Ask{Identity: handlers.Visitor}); err == nil && a.Allowed {
					tried.Add(1)
					after(a)
				}
			})
			if name == "retracted" { // between the two there is room for others
				require.GreaterOrEqual(t, tried.Load(), int64(5))
			} else {
				require.EqualValues(t, 5, tried.Load())
			}
			now.Advance(11 * time.Second)
			require.False(t, handlers.Check(t, m, handlers.Visitor, 1).Allowed)
			now.Advance(time.Minute)
			require.True(t, handlers.Check(t, m, handlers.Visitor, 1).Allowed)
		})
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

// A Decide in a handler of the same policy holds beside the request, and each says for itself.
func TestDecideInAHandlerOfTheSamePolicy(t *testing.T) {
	now := new(handlers.Clock)
	m := handlers.NewLimiter(t, handlers.Login(now))
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := kit.Must(m.Decide(r.Context(), middleware.Ask{Identity: handlers.Visitor}))(t)
		require.True(t, a.Allowed)
		a.Charge(true)
		a.Charge(false)
		w.WriteHeader(http.StatusSeeOther)
	}))
	for range 20 {
		handlers.Send(h)
	}
	require.EqualValues(t, 5, handlers.Peeked(t, m, handlers.Visitor).Limits()[1].Remaining)
	require.EqualValues(t, 10_000-40, handlers.Peeked(t, m, handlers.Visitor).Limits()[0].Remaining, "each counts")
}
