// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"context"
	"errors"
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
