// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// First come, first served; and who is over the bound of a tally, or of all, is told at once.
func TestWaitIsALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &Table{bounds: Bounds{Hold: time.Hour, Queue: 3, QueueAll: 4}}
		first := table.Try(time.Now(), 1, 1)
		var (
			mu    sync.Mutex
			order []int
		)
		for i := range 3 {
			go func() {
				s, err := table.Wait(t.Context(), time.Now, 1, 1, 0)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(time.Second)
				table.Leave(time.Now(), s)
			}()
			synctest.Wait()
		}
		_, err := table.Wait(t.Context(), time.Now, 1, 1, 0)
		require.ErrorIs(t, err, ErrFull, "of the tally")
		require.Nil(t, table.Try(time.Now(), 1, 2), "those who wait come first")

		other := table.Try(time.Now(), 2, 1)
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := table.Wait(ctx, time.Now, 2, 1, 0)
			left <- err
		}()
		synctest.Wait()
		table.Try(time.Now(), 3, 1)
		_, err = table.Wait(t.Context(), time.Now, 3, 1, 0)
		require.ErrorIs(t, err, ErrFull, "of all")
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		_, waiting := table.Live()
		require.Equal(t, 3, waiting)

		table.Leave(time.Now(), other)
		table.Leave(time.Now(), first)
		time.Sleep(10 * time.Second)
		mu.Lock()
		require.Equal(t, []int{0, 1, 2}, order)
		mu.Unlock()
		tallies, _ := table.Live()
		require.Equal(t, 1, tallies, "the third")
	})
}

// A slot that ends by itself is handed on at that moment.
func TestWaitersHaveWhatEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &Table{bounds: Bounds{Hold: 30 * time.Second, Queue: 2, QueueAll: 2}}
		table.Try(time.Now(), 1, 1)
		began := time.Now()
		for i := range 2 {
			s, err := table.Wait(t.Context(), time.Now, 1, 1, 0)
			require.NoError(t, err)
			require.NotNil(t, s)
			require.Equal(t, time.Duration(i+1)*30*time.Second, time.Since(began))
		}
	})
}

// A slot that is given in the moment in which its waiter gives up goes to the next.
func TestNoSlotIsLostToAWaiterThatLeaves(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			table := &Table{bounds: Bounds{Hold: time.Hour, Queue: 2, QueueAll: 2}}
			first := table.Try(time.Now(), 1, 1)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				s, err := table.Wait(ctx, time.Now, 1, 1, 0)
				if err == nil {
					table.Leave(time.Now(), s)
				} else if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}()
			synctest.Wait()
			go cancel()
			go table.Leave(time.Now(), first)
			<-done
			synctest.Wait()
			require.NotNil(t, table.Try(time.Now(), 1, 1))
		})
	}
}

// The same without a race: the slot is there, and nobody takes it.
func TestASlotThatNobodyTakesGoesToTheNext(t *testing.T) {
	table := &Table{bounds: Bounds{Hold: time.Hour, Queue: 2, QueueAll: 2}}
	first := table.Try(start, 1, 1)
	require.Nil(t, table.Try(start, 1, 1))
	w := table.join(1, 1, 1)
	table.Leave(start, first)
	require.Nil(t, table.Try(start, 1, 1))
	require.ErrorIs(t, table.giveUp(start, 1, w, context.Canceled), context.Canceled)
	require.NotNil(t, table.Try(start, 1, 1))
}

// Nobody waits where no slot is permitted.
func TestNobodyWaitsForNothing(t *testing.T) {
	table := &Table{bounds: Bounds{Hold: time.Hour, Queue: 2, QueueAll: 2}}
	_, err := table.Wait(t.Context(), time.Now, 1, 0, 1)
	require.ErrorIs(t, err, ErrFull)
}

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
