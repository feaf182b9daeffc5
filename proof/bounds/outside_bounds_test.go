// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"fmt"
	"math/rand/v2"
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
