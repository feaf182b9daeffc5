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
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/truth"
)

// The threats that proofs of work are an answer to. T28 stands with the prices;
// T27, outsourced and quicker hardware, is documentation: it cannot be prevented.
func TestThreatsOfProofs(t *testing.T) {
	const limit, instances = 5, 3
	fleet := func(t *testing.T, now *handlers.Clock, mode middleware.Mode) (sites []*handlers.Site) {
		for range instances {
			sites = append(sites, handlers.NewSite(t, handlers.Challenging(now, mode)))
		}
		return sites
	}
	passed := func(sites []*handlers.Site) (n int64) {
		for _, s := range sites {
			n += s.Spy.Calls.Load()
		}
		return n
	}

	t.Run("T5 farm tallies, rotate", func(t *testing.T) {
		for name, mode := range map[string]middleware.Mode{"WhenExhausted": middleware.WhenExhausted, "Newcomers": middleware.Newcomers} {
			t.Run(name, func(t *testing.T) {
				sites := fleet(t, new(handlers.Clock), mode)
				var farm []string
				work, tariff := int64(0), truth.Tariff{Work: 16, Crowd: 2 * instances}
				for _, s := range sites {
					for range 50 { // to mint
						c := handlers.ChallengeIn(t, handlers.Fetched(s))
						if c.Work >= 16*16 {
							break // his budget
						}
						farm = append(farm, handlers.TokenIn(handlers.Redeemed(s, handlers.Solve(t, c))))
						work += int64(c.Work)
					}
				}
				require.Len(t, farm, 8*instances, "F is what he has paid for")
				require.LessOrEqual(t, int64(len(farm)), tariff.Most(work, 0))
				for range 3 { // every token, everywhere, first and newest
					for _, s := range sites {
						for i, tok := range farm {
							for range limit + 1 {
								if newest := handlers.TokenIn(handlers.Send(s, handlers.Showing(tok))); newest != "" {
									farm[i] = newest
								}
								handlers.Send(s, handlers.Showing(tok))
							}
						}
						handlers.Admitted(s, 2*limit)
						handlers.Admitted(s, 2*limit, handlers.Showing(farm[:4]...))
					}
				}
				n, tallies := truth.Instances{N: instances}, int64(len(farm))
				bound := map[middleware.Mode]int64{middleware.WhenExhausted: n.Adds(limit, tallies), middleware.Newcomers: n.Buys(limit, tallies)}[mode]
				require.LessOrEqual(t, passed(sites), bound)
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
			handlers.ExhaustIn(t, mode, s)
			s.Spy.Calls.Store(0)
			for _, proof := range stock {
				handlers.Send(s, handlers.Proving(proof))
				require.Equal(t, http.StatusForbidden, handlers.Redeemed(s, proof).StatusCode)
			}
			require.Zero(t, s.Spy.Calls.Load(), name)
		}
	})

	t.Run("T26 replay inside the expiry", func(t *testing.T) {
		sites := fleet(t, new(handlers.Clock), middleware.EveryRequest)
		proof := handlers.Solved(t, handlers.Fetched(sites[0]))
		handlers.InParallel(1000, func(i int) { handlers.Send(sites[i%instances], handlers.Proving(proof)) })
		require.EqualValues(t, instances, passed(sites), "one on each instance")
	})

	t.Run("T26 in a form that browsers send", func(t *testing.T) {
		s := handlers.NewSite(t, handlers.Challenging(new(handlers.Clock), middleware.EveryRequest))
		cookie := handlers.CookieIn(handlers.Redeemed(s, handlers.Solved(t, handlers.Fetched(s))))
		handlers.InParallel(100, func(int) { handlers.Send(s, handlers.With("Cookie", cookie.Name+"="+cookie.Value)) })
		require.EqualValues(t, 1, s.Spy.Calls.Load())
	})

	t.Run("T42 cold starts", func(t *testing.T) {
		for name, mode := range handlers.AllModes {
			t.Run(name, func(t *testing.T) {
				const starts = 7
				now := new(handlers.Clock)
				sites := fleet(t, now, mode)
				first := handlers.Solved(t, handlers.Fetched(sites[0]))
				tokens, proofs := []string{}, []string{first}
				if mode != middleware.EveryRequest {
					tokens = append(tokens, handlers.TokenIn(handlers.Redeemed(sites[0], first)))
				}
				attack := func(s *handlers.Site) {
					for range limit + 2 {
						handlers.Send(s)
						for _, tok := range tokens {
							handlers.Send(s, handlers.Showing(tok))
						}
						for _, proof := range proofs {
							handlers.Send(s, handlers.Proving(proof))
						}
					}
				}
				for _, s := range sites {
					attack(s)
				}
				for range starts {
					fresh := handlers.NewSite(t, handlers.Challenging(now, mode))
					sites = append(sites, fresh)
					attack(fresh)
					if mode == middleware.Newcomers {
						require.Equal(t, http.StatusForbidden, handlers.Send(fresh).StatusCode, "no token: challenged")
					}
				}
				n := truth.Instances{N: instances, C: starts}
				bound := map[middleware.Mode]int64{middleware.WhenExhausted: n.Adds(limit, 1), middleware.Newcomers: n.Buys(limit, 1), middleware.EveryRequest: n.Proves(limit, 1)}[mode]
				require.Equal(t, bound, passed(sites), "the bound with C cold starts, and no less: what it says is true")
			})
		}
	})
}

// A proof that was sold on one instance is a sale on each: spreading redeems pays for
// one tally everywhere, and a fleet sells N times what one instance does.
func TestOneProofManyInstances(t *testing.T) {
	now := new(handlers.Clock)
	var sites []*handlers.Site
	for range 4 {
		sites = append(sites, handlers.NewSite(t, handlers.Challenging(now, middleware.Newcomers)))
	}
	tallies, work := map[string]bool{}, int64(0)
	for range 40 {
		for _, s := range sites {
			c := handlers.ChallengeIn(t, handlers.Fetched(s))
			if c.Work > 16*16 {
				continue
			}
			work += int64(c.Work)
			proof := handlers.Solve(t, c)
			for _, other := range sites {
				if tok := handlers.TokenIn(handlers.Redeemed(other, proof)); tok != "" {
					tallies[handlers.ClaimsIn(t, tok).Fam] = true
				}
			}
		}
	}
	require.GreaterOrEqual(t, len(tallies), 8)
	require.LessOrEqual(t, int64(len(tallies)), truth.Tariff{Work: 16, Crowd: 4 * 2}.Most(work, 0))
	t.Logf("%d tallies of 4 instances", len(tallies))
}

// What a client shows costs at most a few MACs and no memory, whoever made it.
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
