// SPDX-License-Identifier: Apache-2.0

package sale

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/cells"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// A landlord has all addresses of one provider, and buys.
type landlord struct {
	*rand.Rand
	m     *limiter.Memory
	p     *Prices
	tally uint64
}

func newLandlord(t *testing.T, r *rand.Rand, clients int, tariff Tariff) *landlord {
	p := kit.Must(tariff.Compile())(t)
	return &landlord{Rand: r, m: limiter.NewMemory(clients, 1), p: p}
}

// buy buys a tally as the n-th host, of IPv4 or of a /48 of its own, if it is not above a price.
func (l *landlord) buy(now time.Time, n uint64, wide bool, most int64) bool {
	buyers := []Buyer{{Key: limiter.Key(cells.Mix(n)), Crowds: 1, Provider: 1}}
	if wide {
		buyers = append(buyers, Buyer{Key: limiter.Key(cells.Mix(n + 1<<40)), Crowds: 2}, Buyer{Key: limiter.Key(cells.Mix(n + 2<<40)), Crowds: 8})
	}
	price := l.p.Quote(now, l.m, buyers).Price
	if price == 0 || price > most {
		return false
	}
	l.tally++
	return l.p.Redeem(now, l.m, buyers, limiter.Key(cells.Mix(l.tally+3<<40)), now.Add(time.Duration(10+l.IntN(290))*time.Second), price).Granted
}

// part returns the part of the cells for sales that is in use.
func (l *landlord) part(now time.Time) float64 {
	used, paid := 0, l.m.Paid()
	for i := range paid.Cells {
		if !paid.Cells[i].Free(now.Unix(), paid.Horizon(0)) {
			used++
		}
	}
	return float64(used) / float64(len(paid.Cells))
}

// What a provider has taken is counted for longer than a sale is kept: it does not have another quarter in the next minutes.
func TestAQuarterIsNotForTheMinute(t *testing.T) {
	l := newLandlord(t, rand.New(rand.NewPCG(1, 5)), 4096, Tariff{Work: 16, Crowd: 8, SalesPerHour: 32})
	now, hosts := time.Unix(1_800_000_000, 0), uint64(0)
	for range 60 {
		for range 300 {
			hosts++
			l.buy(now, hosts, false, 16)
		}
		require.LessOrEqual(t, l.part(now), 0.26)
		now = now.Add(10 * time.Second)
	}
}

// An attacker with all of a provider's addresses and any time takes at most a
// quarter of the cells for sales: by fresh hosts, present hosts, waiting, and
// former hosts. A buyer above the base price keeps old ledgers for longer than
// they are counted: a third for four times the price, never half.
func TestAProviderTakesAQuarterOfTheSales(t *testing.T) {
	seeds := 24
	if kit.Brief() {
		seeds = 2
	}
	for dear, bound := range map[int]float64{3: 1.0 / 3, 12: 0.5} {
		most := 0.0
		for seed := range uint64(seeds) {
			r := rand.New(rand.NewPCG((seed+7)%24, 4)) // of the short form the first is the worst
			tariff := Tariff{Work: 16, Crowd: []int64{1, 8, 64}[r.IntN(3)], SalesPerHour: []int64{1, 32, 2000}[r.IntN(3)]}
			l := newLandlord(t, r, []int{512, 4096}[r.IntN(2)], tariff)
			now, wide, hosts := time.Unix(1_800_000_000, 0), r.IntN(2) == 0, uint64(0)
			for range 40 {
				price := int64(16) << r.IntN(dear)
				old := r.IntN(3) > 0
				for range 2000 {
					n := hosts
					if old && hosts > 0 {
						n = r.Uint64N(hosts)
					} else {
						hosts++
					}
					l.buy(now, n, wide, price)
				}
				most = max(most, l.part(now))
				require.LessOrEqual(t, most, bound, "seed %d: %+v, %d hosts, IPv6 %t", seed, tariff, hosts, wide)
				now = now.Add(time.Duration(r.Int64N(int64(16 * time.Hour / time.Duration(tariff.SalesPerHour<<r.IntN(6))))))
			}
		}
		require.Greater(t, most, 0.2)
	}
}
