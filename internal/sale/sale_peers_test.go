// SPDX-License-Identifier: Apache-2.0

package sale_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/gossip"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
)

// A guild has stalls that hear each other.
type guild struct {
	t       *testing.T
	all     []*stall
	records []*gossip.Records
	pace    time.Time
}

func newGuild(t *testing.T, tariff sale.Tariff, n int) *guild {
	g := &guild{t: t, pace: opening}
	for i := range n {
		s, r := openStall(t, tariff, 1024), gossip.New(gossip.Config{Name: uint64(i + 1), Records: 1024})
		for j := range n {
			r.Joined(g.pace, uint64(j+1))
		}
		r.Ready()
		s.m.Join(r, "p")
		s.wares = 1000 * i
		g.all, g.records = append(g.all, s), append(g.records, r)
	}
	return g
}

// batch is what a process has to tell another now, with how that is heard; nil: nothing, or it is under way.
func (g *guild) batch(i, j int) (hear func()) {
	batch := g.records[i].Batch(g.pace, uint64(j+1))
	if batch == nil {
		return nil
	}
	return func() {
		_, err := g.records[j].Hear(opening, uint64(i+1), batch)
		require.NoError(g.t, err)
	}
}

// tell carries all that they have to tell.
func (g *guild) tell() {
	g.pace = g.pace.Add(time.Second)
	for i := range g.records {
		for j := range g.records {
			if hear := g.batch(i, j); hear != nil {
				hear()
				g.records[i].Answered(g.pace, uint64(j+1))
			}
		}
	}
}

// A proof counts as one sale, whatever processes it is shown to: one after the other, or all before they have heard of
// each other. So an attacker that drives the price of its neighbours up works for each sale.
func TestAProofCountsOnce(t *testing.T) {
	for name, atOnce := range map[string]bool{"in turn": false, "at once": true} {
		g, alone := newGuild(t, plain(8), 3), openStall(t, plain(8), 1024)
		buyers := g.all[0].address(1)
		for range 8 {
			work, tally := g.all[0].quote(opening, buyers).Price, g.all[0].ware()
			alone.buy(opening, buyers)
			for i, s := range g.all {
				require.Equal(t, i > 0 && !atOnce, s.redeem(opening, buyers, tally, work).Held, name)
				if !atOnce {
					g.tell()
				}
			}
			g.tell()
			for _, s := range g.all {
				require.True(t, s.redeem(opening, buyers, tally, 0).Held, name)
				require.Equal(t, alone.quote(opening, buyers), s.quote(opening, buyers), name)
			}
		}
	}
}

// Whatever is lost, doubled and late, and wherever proofs are shown, no process counts more than the tallies that were
// sold, and none lacks more than one of each other.
func TestSalesAreASet(t *testing.T) {
	seeds(t, 12, func(t *testing.T, r *rand.Rand) {
		const n = 4
		g := newGuild(t, sale.Tariff{Work: 1000, Crowd: 255, SalesPerHour: 1}, n)
		buyers, sold, late := g.all[0].host(1, 2, 3), map[limiter.Key]bool{}, []func(){}
		shown := []limiter.Key{g.all[0].ware()}
		for range 400 {
			g.pace = g.pace.Add(10 * time.Millisecond)
			i, j := r.IntN(n), r.IntN(n)
			if r.IntN(3) == 0 {
				shown = append(shown, g.all[0].ware())
			}
			tally := shown[max(0, len(shown)-1-r.IntN(3))]
			if g.all[i].redeem(opening, buyers, tally, 1<<30).Granted {
				sold[tally] = true
			}
			if hear := g.batch(i, j); hear != nil {
				if r.IntN(4) == 0 {
					late = append(late, hear)
				}
				if r.IntN(4) == 0 {
					g.records[i].Lost(uint64(j + 1))
				} else {
					hear()
					g.records[i].Answered(g.pace, uint64(j+1))
				}
			}
			if len(late) > 0 && r.IntN(4) == 0 {
				late[r.IntN(len(late))]()
			}
			for _, s := range g.all {
				for _, b := range buyers {
					got := s.count(opening, b)
					require.LessOrEqual(t, got, int64(len(sold)))
					require.GreaterOrEqual(t, got, int64(len(sold)-(n-1)))
				}
			}
		}
		for range 5 {
			g.tell()
		}
		require.Greater(t, len(sold), 20)
		for _, s := range g.all {
			s.requireCount(opening, buyers[0], len(sold))
		}
	})
}
