// SPDX-License-Identifier: Apache-2.0

// Package exactkit is what tests of all exact counters share: calls that must not fail, and what befalls the server of a counter, the way to
// it, and the processes that share it. What a counter must hold is in package exacttest.
package exactkit

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// Patient is how long a test waits for what is bound to come, on a machine that is busy.
const Patient = 5 * time.Minute

// Compile compiles limits.
func Compile(t testing.TB, limits ...storeless.Limit) *exact.Policy {
	t.Helper()
	return kit.Must(exact.Compile("api", limits))(t)
}

// Hourly is a fixed window of an hour.
func Hourly(quota int64) storeless.Limit {
	return storeless.Limit{Algorithm: storeless.FixedWindow, Quota: quota, Window: time.Hour}
}

// Yearly is a fixed window whose end no test meets.
func Yearly(quota int64) storeless.Limit {
	return storeless.Limit{Algorithm: storeless.FixedWindow, Quota: quota, Window: 365 * 24 * time.Hour}
}

// PerHour is a policy of [Hourly].
func PerHour(t testing.TB, quota int64) *exact.Policy {
	t.Helper()
	return Compile(t, Hourly(quota))
}

// PerYear is a policy of [Yearly].
func PerYear(t testing.TB, quota int64) *exact.Policy {
	t.Helper()
	return Compile(t, Yearly(quota))
}

// Count returns a counter on a store.
func Count(t testing.TB, store cas.Store) engine.Archive {
	t.Helper()
	return kit.Must(cas.New(store, cas.Config{}))(t)
}

// Take makes a call that must be answered.
func Take(t testing.TB, c exact.Counter, call exact.Call) exact.Verdict {
	t.Helper()
	return kit.Must(c.Take(t.Context(), call))(t)
}

// Peek looks, and must be answered.
func Peek(t testing.TB, c exact.Counter, call exact.Call) exact.Verdict {
	t.Helper()
	return kit.Must(c.Peek(t.Context(), call))(t)
}

// Left is what a look says that the first limit has left.
func Left(t testing.TB, c exact.Counter, call exact.Call) int64 {
	t.Helper()
	return Peek(t, c, call).Limits[0].Remaining
}

// Admitted makes n calls from each of some callers at once, requires an answer to each, and returns
// how many were admitted. call returns the nth of a caller, and the counter that it asks.
func Admitted(t testing.TB, callers, times int, call func(caller, n int) (exact.Counter, exact.Call)) int64 {
	t.Helper()
	var admitted atomic.Int64
	kit.Together(callers, func(caller int) {
		for n := range times {
			c, asks := call(caller, n)
			v, err := c.Take(t.Context(), asks)
			if err != nil {
				t.Error(err)
				return
			}
			if v.Admitted {
				admitted.Add(1)
			}
		}
	})
	return admitted.Load()
}

// Bytes returns the bytes of an account.
func Bytes(t testing.TB, a *engine.Account) []byte {
	t.Helper()
	return kit.Must(a.AppendBinary(nil))(t)
}

// lossy loses the answer of the next swap, when it is told to.
type lossy struct {
	cas.Store
	lose *atomic.Bool
}

func (s lossy) Swap(ctx context.Context, name, revision string, value []byte, keep time.Duration) error {
	err := s.Store.Swap(ctx, name, revision, value, keep)
	if err == nil && s.lose.CompareAndSwap(true, false) {
		return errors.New("the connection was cut")
	}
	return err
}

// OnAStore runs the suite of package exacttest on a counter on a store, by a clock of the test, and has
// answers be lost.
func OnAStore(t *testing.T, store cas.Store) {
	clock, lose := exacttest.NewClock(), new(atomic.Bool)
	require.NoError(t, (&exacttest.Suite{
		Open:       func() (exact.Counter, error) { return cas.New(lossy{store, lose}, cas.Config{Now: clock.Now}) },
		Clock:      clock,
		LoseAnswer: func(exact.Counter) { lose.Store(true) },
	}).Test())
}
