// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// Processes start, end, are killed and cut off, and connections break. When all is well again for some seconds, each
// knows what each that lives has admitted, and none counts what was not.
func TestTroubleEnds(t *testing.T) {
	seeds := 8
	if kit.Whole() {
		seeds = 100
	}
	for seed := range seeds {
		kit.RunBubble(t, fmt.Sprint(seed), func(t *testing.T) {
			r, w, list := rand.New(rand.NewPCG(uint64(seed), 1)), newWorld(t), addresses(5)
			live, own, all := map[string]*member{}, map[string]int{}, 0
			start := func(address string) { live[address], own[address] = w.start(address, members(list...)), 0 }
			for _, m := range w.fleet(list...) {
				live[m.address] = m
			}
			for range 100 {
				one, other := list[r.IntN(5)], list[r.IntN(5)]
				m := live[one]
				switch k := r.IntN(20); {
				case m == nil:
					start(one)
				case k == 0:
					w.kill(m)
					delete(live, one)
				case k == 1:
					closeAll(m)
					delete(live, one)
				case k == 2:
					w.cut(away(one, other))
				case k == 3:
					w.cut(map[[2]string]bool{{one, other}: true})
				case k == 4:
					w.cut(nil)
				case k < 8:
					w.breaks(one, other)
				default:
					m.add(1)
					own[one]++
					all++
				}
				time.Sleep(time.Duration(r.ExpFloat64() * float64(200*time.Millisecond)))
				if r.IntN(20) == 0 {
					time.Sleep(12 * time.Second)
				}
			}
			w.cut(nil)
			time.Sleep(2 * silence)
			admitted := 0
			for address := range live {
				admitted += own[address]
			}
			for address, m := range live {
				require.LessOrEqual(t, admitted, m.sum(), address)
				require.GreaterOrEqual(t, all, m.sum(), address)
				require.Len(t, m.Stats().Heard, len(live)-1, address)
			}
			require.Equal(t, len(live)*(len(live)-1)/2, w.open())
			for _, m := range live {
				closeAll(m)
			}
		})
	}
}
