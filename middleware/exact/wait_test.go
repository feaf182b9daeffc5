package exact_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// Ten workers share 60 a minute for five minutes: each call goes through in the end, at
// no more than the quota.
func TestWaitPaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := exact.NewMemory(0, nil)
		p := compile(t, storeless.Limit{Algorithm: storeless.SlidingLog, Quota: 60, Window: time.Minute})
		began := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				for range 30 {
					v, err := exact.Wait(t.Context(), m, exact.Call{Key: "k", Cost: 1, Policy: p, ID: "first"})
					if err != nil || !v.Admitted {
						t.Error(err)
					}
					_, err = exact.Wait(t.Context(), m, exact.Call{Key: "k", Cost: 1, Policy: p})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		require.GreaterOrEqual(t, time.Since(began), 4*time.Minute)
		require.LessOrEqual(t, time.Since(began), 10*time.Minute)
	})
}

func TestWaitDoesNotWaitForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := exact.NewMemory(0, nil)
		p := compile(t, hourly(5))
		call := exact.Call{Key: "k", Cost: 6, Policy: p}
		_, err := exact.Wait(t.Context(), m, call)
		require.ErrorIs(t, err, exact.ErrImpossible)
		require.ErrorIs(t, err, exact.ErrNotCounted)
		call.Cost = 5
		_, err = exact.Wait(t.Context(), m, call)
		require.NoError(t, err)

		began := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = exact.Wait(short, m, call)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, exact.ErrNotCounted)
		require.Zero(t, time.Since(began), "the hour is longer than the minute")

		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		_, err = exact.Wait(gone, m, call)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, time.Second, time.Since(began))
	})
}
