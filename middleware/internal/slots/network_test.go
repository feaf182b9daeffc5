// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Against plain counts: who comes is refused only if his queue is full, or if all of QueueAll wait
// and no network has two more than his own. Who gives way is the newest of the network that has
// most.
func TestTheLongestGivesWay(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 3))
		bounds := Bounds{Queue: 1 + rng.IntN(6), QueueAll: 1 + rng.IntN(12)}
		table := Table{bounds: bounds}
		slots := map[Key]*Slot{}
		for key := range Key(8) {
			slots[key] = table.Try(start, key, 1)
		}
		var waiting []*waiter
		from := func(network Key) (n int) {
			for _, w := range waiting {
				if w.seat.network.key == network {
					n++
				}
			}
			return n
		}
		for range 300 {
			key := Key(rng.IntN(8))
			if rng.IntN(4) == 0 { // a turn comes
				table.Leave(start, slots[key])
				for i, w := range waiting {
					if w.key == key {
						slots[key] = <-w.slot
						waiting = append(waiting[:i], waiting[i+1:]...)
						break
					}
				}
				if s := table.Try(start, key, 1); s != nil {
					slots[key] = s
				}
				continue
			}
			network, queue, most := key/2, 0, 0
			if rng.IntN(3) == 0 {
				network = Key(rng.IntN(4)) // a tally that was bought goes with its client
			}
			for _, w := range waiting {
				most = max(most, from(w.seat.network.key))
				if w.key == key {
					queue++
				}
			}
			full := len(waiting) >= bounds.QueueAll
			may := queue < bounds.Queue && (!full || most >= from(network)+2)
			w := table.join(key, 1, network)
			require.Equal(t, may, w != nil, "seed %d", seed)
			if may && full {
				var ousted *waiter
				for i, other := range waiting {
					if len(other.slot) > 0 {
						require.Nil(t, <-other.slot)
						require.Equal(t, most, from(other.seat.network.key))
						for _, later := range waiting[i+1:] {
							require.NotEqual(t, other.seat.network.key, later.seat.network.key, "the newest")
						}
						ousted = other
						waiting = append(waiting[:i], waiting[i+1:]...)
						break
					}
				}
				require.NotNil(t, ousted)
			}
			if may {
				waiting = append(waiting, w)
			}
			_, n := table.Live()
			require.Equal(t, len(waiting), n)
			require.LessOrEqual(t, n, bounds.QueueAll)
		}
		for len(waiting) > 0 {
			require.Error(t, table.giveUp(start, waiting[0].key, waiting[0], ErrFull))
			waiting = waiting[1:]
		}
		require.Empty(t, table.networks.all)
		require.Empty(t, table.networks.longest)
	}
}

// Who gives way is told at once, and what it might have been given goes to nobody.
func TestGivingWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &Table{bounds: Bounds{Hold: time.Hour, Queue: 2, QueueAll: 2}}
		first := table.Try(time.Now(), 1, 1)
		table.Try(time.Now(), 2, 1)
		ended := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := table.Wait(t.Context(), time.Now, 1, 1, 1)
				ended <- err
			}()
			synctest.Wait()
		}
		w := table.join(2, 1, 2)
		require.NotNil(t, w)
		require.ErrorIs(t, <-ended, ErrFull)
		require.Nil(t, table.join(2, 1, 2), "as many as the other network: two would oust each other")
		table.Leave(time.Now(), first)
		require.NoError(t, <-ended)
	})
	t.Run("in the moment in which it gives up", func(t *testing.T) {
		table := &Table{bounds: Bounds{Queue: 2, QueueAll: 2}}
		table.Try(start, 1, 1)
		table.Try(start, 2, 1)
		table.join(1, 1, 1)
		newest := table.join(1, 1, 1)
		require.NotNil(t, table.join(2, 1, 2))
		require.ErrorIs(t, table.giveUp(start, 1, newest, ErrFull), ErrFull)
		require.Nil(t, table.Try(start, 1, 1))
	})
}
