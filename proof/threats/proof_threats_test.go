// SPDX-License-Identifier: Apache-2.0

package threats_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/players"
	"github.com/tallystick/tallystick/proof/truth"
)

// The threats that proofs of work are an answer to. T28 stands with the prices;
// T27, outsourced and quicker hardware, is documentation: it cannot be prevented.
func TestThreatsOfProofs(t *testing.T) {
	const limit, instances = 5, 3
	t.Run("T5 farm tallies, rotate", func(t *testing.T) {
		for name, mode := range map[string]middleware.Mode{"WhenExhausted": middleware.WhenExhausted, "Newcomers": middleware.Newcomers} {
			t.Run(name, func(t *testing.T) {
				const budget = 16 * 16 // for one tally
				a := attacker(instances, mode)
				for i := range instances {
					for c, ok := a.Challenge(i, "").Challenge(); ok && c.Work < budget; c, ok = a.Challenge(i, "").Challenge() {
						a.Buy(i)
					}
				}
				require.EqualValues(t, 8*instances, a.Gained().Bought, "F is what it has paid for")
				require.LessOrEqual(t, a.Gained().Bought, truth.Tariff{Work: 16, Crowd: 2 * instances}.Most(a.Gained().Spent, 0))
				a.Drop()
				a.Use(1)
				a.RollBack() // any two tokens of any tallies, first and newest
				n := truth.Instances{N: instances}
				bound := map[middleware.Mode]int64{middleware.WhenExhausted: n.Adds(limit, a.Gained().Bought), middleware.Newcomers: n.Buys(limit, a.Gained().Bought)}[mode]
				require.Equal(t, bound, a.Gained().Admitted)
			})
		}
	})

	t.Run("T25 precompute", func(t *testing.T) {
		for name, mode := range handlers.AllModes {
			now := new(handlers.Clock)
			s := handlers.NewSite(t, handlers.Challenging(now, mode))
			var stock []string
			for range 100 {
				stock = append(stock, handlers.Solved(t, handlers.Fetched(s)))
			}
			now.Advance(11 * time.Second)
			handlers.Admitted(s, 5) // all that WhenExhausted gives without work
			s.Spy.Calls.Store(0)
			for _, proof := range stock {
				handlers.Send(s, handlers.Proving(proof))
				require.Equal(t, http.StatusForbidden, handlers.Redeemed(s, proof).StatusCode)
			}
			require.Zero(t, s.Spy.Calls.Load(), name)
		}
	})

	t.Run("T26 replay inside the expiry", func(t *testing.T) {
		sites := handlers.Sites(t, instances, handlers.Challenging(new(handlers.Clock), middleware.EveryRequest))
		proof := handlers.Solved(t, handlers.Fetched(sites[0]))
		kit.Together(1000, func(i int) { handlers.Send(sites[i%instances], handlers.Proving(proof)) })
		for _, s := range sites {
			require.EqualValues(t, 1, s.Spy.Calls.Load(), "one on each instance")
		}
	})

	t.Run("T26 in a form that browsers send", func(t *testing.T) {
		s := handlers.NewSite(t, handlers.Challenging(new(handlers.Clock), middleware.EveryRequest))
		cookie := handlers.CookieIn(handlers.Redeemed(s, handlers.Solved(t, handlers.Fetched(s))))
		kit.Together(100, func(int) { handlers.Send(s, handlers.With("Cookie", cookie.Name+"="+cookie.Value)) })
		require.EqualValues(t, 1, s.Spy.Calls.Load())
	})

	t.Run("T42 cold starts", func(t *testing.T) {
		for name, mode := range handlers.AllModes {
			t.Run(name, func(t *testing.T) {
				const starts = 7
				a := attacker(instances, mode)
				attack := func() {
					if mode == middleware.EveryRequest {
						a.Prove(1)
					} else {
						a.Farm(1, 1)
					}
				}
				attack()
				a.Fleet.(*fleet.Moved).Scale(instances + starts)
				if mode == middleware.Newcomers {
					require.Equal(t, http.StatusForbidden, a.Ask(fleet.Request{To: instances}).Status, "no token: challenged")
				}
				attack()
				n := truth.Instances{N: instances, C: starts}
				bound := map[middleware.Mode]int64{middleware.WhenExhausted: n.Adds(limit, 1), middleware.Newcomers: n.Buys(limit, 1), middleware.EveryRequest: n.Proves(limit, 1)}[mode]
				require.Equal(t, bound, a.Gained().Admitted, "the bound with C cold starts, and no less: what it says is true")
			})
		}
	})
}

// attacker is a client of instances that sell in a mode.
func attacker(instances int, mode middleware.Mode) *players.Attacker {
	return &players.Attacker{Fleet: fleet.New(instances, handlers.Challenging(nil, mode)), From: []string{fleet.V4(0)}, Random: handlers.Random(1)}
}

// A proof that was sold on one instance is a sale on each: an attacker that redeems everywhere pays for
// a tally as on one instance.
func TestOneProofManyInstances(t *testing.T) {
	a := attacker(4, middleware.Newcomers)
	a.Farm(12, 1)
	require.EqualValues(t, 12, a.Gained().Bought)
	require.LessOrEqual(t, a.Gained().Bought, truth.Tariff{Work: 16, Crowd: 2}.Most(a.Gained().Spent, 0))
	require.Equal(t, truth.Instances{N: 4}.Buys(5, 12), a.Gained().Admitted)
}

// What a client shows costs at most a few MACs and no memory, also if it is forged.
func TestForgedProofsAreCheap(t *testing.T) {
	if kit.Race {
		t.Skip("the race detector allocates on its own")
	}
	h := handlers.NewSite(t, handlers.Challenging(new(handlers.Clock), middleware.EveryRequest))
	without := handlers.AllocatedBy(h)
	long := strings.Repeat("A", 600<<10)
	name := "__Host-tallystick-contact.proof.0badcafe="
	cookies := ""
	for i := range 2900 {
		cookies += fmt.Sprintf("%s%d~; ", name, i)
	}
	for what, shown := range map[string]handlers.Option{
		"a huge field":           handlers.Proving(long),
		"a thousand commas":      handlers.Proving(strings.Repeat(",", 1000)),
		"a thousand fields":      handlers.Proving(make([]string, 1000)...),
		"a huge cookie":          handlers.With("Cookie", name+long),
		"three thousand cookies": handlers.With("Cookie", cookies),
	} {
		require.LessOrEqual(t, handlers.AllocatedBy(h, shown), without+4<<10, what)
	}
}
