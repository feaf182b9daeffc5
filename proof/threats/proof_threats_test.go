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
	"github.com/tallystick/tallystick/proof/kit"
)

// The threats that proofs of work are an answer to. T28 stands with the prices;
// T27, outsourced and quicker hardware, is documentation: it cannot be prevented.
func TestThreatsOfProofs(t *testing.T) {
	const limit, instances = 5, 3
	fleet := func(t *testing.T, now *clock, mode middleware.Mode) (sites []*site) {
		for range instances {
			sites = append(sites, newSite(t, challenging(now, mode)))
		}
		return sites
	}
	passed := func(sites []*site) (n int64) {
		for _, s := range sites {
			n += s.Spy.Calls.Load()
		}
		return n
	}

	t.Run("T5 farm tallies, rotate", func(t *testing.T) {
		for name, mode := range map[string]middleware.Mode{"WhenExhausted": middleware.WhenExhausted, "Newcomers": middleware.Newcomers} {
			t.Run(name, func(t *testing.T) {
				sites := fleet(t, new(clock), mode)
				var farm []string
				var work float64
				for _, s := range sites {
					for range 50 { // to mint
						c := challengeIn(t, fetched(s))
						if c.Work >= 16*16 {
							break // his budget
						}
						farm = append(farm, tokenIn(redeemed(s, solve(t, c))))
						work += float64(c.Work)
					}
				}
				require.Len(t, farm, 8*instances, "F is what he has paid for")
				require.GreaterOrEqual(t, work, leastHashes(len(farm), instances, 2, 16))
				for range 3 { // every token, everywhere, first and newest
					for _, s := range sites {
						for i, tok := range farm {
							for range limit + 1 {
								if newest := tokenIn(send(s, showing(tok))); newest != "" {
									farm[i] = newest
								}
								send(s, showing(tok))
							}
						}
						admitted(s, 2*limit)
						admitted(s, 2*limit, showing(farm[:4]...))
					}
				}
				tallies := int64(len(farm))
				if mode == middleware.WhenExhausted {
					tallies++
				}
				require.LessOrEqual(t, passed(sites), instances*limit*tallies, "N·L·(1+F), N·L·F")
			})
		}
	})

	t.Run("T25 precompute", func(t *testing.T) {
		for name, mode := range allModes {
			now := new(clock)
			s := newSite(t, challenging(now, mode))
			var stock []string
			for range 100 {
				stock = append(stock, solved(t, fetched(s)))
			}
			now.Advance(11 * time.Second)
			exhaustIn(t, mode, s)
			s.Spy.Calls.Store(0)
			for _, proof := range stock {
				send(s, proving(proof))
				require.Equal(t, http.StatusForbidden, redeemed(s, proof).StatusCode)
			}
			require.Zero(t, s.Spy.Calls.Load(), name)
		}
	})

	t.Run("T26 replay inside the expiry", func(t *testing.T) {
		sites := fleet(t, new(clock), middleware.EveryRequest)
		proof := solved(t, fetched(sites[0]))
		inParallel(1000, func(i int) { send(sites[i%instances], proving(proof)) })
		require.EqualValues(t, instances, passed(sites), "one on each instance")
	})

	t.Run("T26 in a form that browsers send", func(t *testing.T) {
		s := newSite(t, challenging(new(clock), middleware.EveryRequest))
		cookie := cookieIn(redeemed(s, solved(t, fetched(s))))
		inParallel(100, func(int) { send(s, with("Cookie", cookie.Name+"="+cookie.Value)) })
		require.EqualValues(t, 1, s.Spy.Calls.Load())
	})

	t.Run("T42 cold starts", func(t *testing.T) {
		for name, mode := range allModes {
			t.Run(name, func(t *testing.T) {
				const starts = 7
				now := new(clock)
				sites := fleet(t, now, mode)
				first := solved(t, fetched(sites[0]))
				tokens, proofs := []string{}, []string{first}
				if mode != middleware.EveryRequest {
					tokens = append(tokens, tokenIn(redeemed(sites[0], first)))
				}
				attack := func(s *site) {
					for range limit + 2 {
						send(s)
						for _, tok := range tokens {
							send(s, showing(tok))
						}
						for _, proof := range proofs {
							send(s, proving(proof))
						}
					}
				}
				for _, s := range sites {
					attack(s)
				}
				for range starts {
					fresh := newSite(t, challenging(now, mode))
					sites = append(sites, fresh)
					attack(fresh)
					if mode == middleware.Newcomers {
						require.Equal(t, http.StatusForbidden, send(fresh).StatusCode, "no token: challenged")
					}
				}
				bound := map[middleware.Mode]int64{
					middleware.WhenExhausted: (instances + starts) * limit * 2,
					middleware.Newcomers:     (instances + starts) * limit * 1,
					middleware.EveryRequest:  min((instances+starts)*limit, (instances+starts)*1),
				}[mode]
				require.Equal(t, bound, passed(sites), "the bound with C cold starts, and no less: what it says is true")
			})
		}
	})
}

// A proof that was sold on one instance is a sale on each: spreading redeems pays for
// one tally everywhere, and a fleet sells N times what one instance does.
func TestOneProofManyInstances(t *testing.T) {
	now := new(clock)
	var sites []*site
	for range 4 {
		sites = append(sites, newSite(t, challenging(now, middleware.Newcomers)))
	}
	tallies, work := map[string]bool{}, 0.0
	for range 40 {
		for _, s := range sites {
			c := challengeIn(t, fetched(s))
			if c.Work > 16*16 {
				continue
			}
			work += float64(c.Work)
			proof := solve(t, c)
			for _, other := range sites {
				if tok := tokenIn(redeemed(other, proof)); tok != "" {
					tallies[claimsIn(t, tok).Fam] = true
				}
			}
		}
	}
	require.GreaterOrEqual(t, len(tallies), 8)
	require.GreaterOrEqual(t, work, leastHashes(len(tallies), 4, 2, 16))
	t.Logf("%d tallies of 4 instances", len(tallies))
}

// What a client shows costs at most a few MACs and no memory, whoever made it.
func TestForgedProofsAreCheap(t *testing.T) {
	if kit.Race {
		t.Skip("the race detector allocates on its own")
	}
	h := newSite(t, challenging(new(clock), middleware.EveryRequest))
	without := allocatedBy(h)
	long := strings.Repeat("A", 600<<10)
	name := "__Host-tallystick-contact.proof.0badcafe="
	cookies := ""
	for i := range 2900 {
		cookies += fmt.Sprintf("%s%d~; ", name, i)
	}
	for what, shown := range map[string]option{
		"a huge field":           proving(long),
		"a thousand commas":      proving(strings.Repeat(",", 1000)),
		"a thousand fields":      proving(make([]string, 1000)...),
		"a huge cookie":          with("Cookie", name+long),
		"three thousand cookies": with("Cookie", cookies),
	} {
		require.LessOrEqual(t, allocatedBy(h, shown), without+4<<10, what)
	}
}
