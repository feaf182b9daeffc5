// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// A memory that was filled while its clock was ahead has room when the clock is back, and
// remembers IDs for no longer than ever.
func TestMemoryOfAWrongClockMakesRoom(t *testing.T) {
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.FixedWindow, Quota: 5, Window: time.Minute})
	clock := exacttest.NewClock()
	m := memory.New(64, clock.Now)
	fill := func() (last error) {
		for n := range 5000 {
			_, last = m.Take(t.Context(), exact.Call{Key: strconv.Itoa(n), Cost: 1, Policy: p, ID: "there"})
		}
		return last
	}
	clock.Advance(year)
	require.ErrorIs(t, fill(), exact.ErrFull)
	clock.Advance(-year)
	for range 4 { // one moment is not believed
		_, err := m.Take(t.Context(), exact.Call{Key: "new", Cost: 1, Policy: p})
		require.ErrorIs(t, err, exact.ErrFull)
		clock.Advance(20 * time.Second)
	}
	clock.Advance(time.Minute)
	require.True(t, exactkit.Take(t, m, exact.Call{Key: "new", Cost: 1, Policy: p}).Admitted)

	call := exact.Call{Key: "0", Cost: 1, Policy: p, ID: "there"}
	require.True(t, exactkit.Take(t, m, call).Replayed)
	clock.Advance(2 * exact.IDLife)
	require.False(t, exactkit.Take(t, m, call).Replayed)
}

// A memory that is full while its clock is ahead gives no key a fresh quota.
func TestFullMemoryOfAClockThatIsAheadForAMoment(t *testing.T) {
	clock := exacttest.NewClock()
	m := memory.New(100, clock.Now)
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.FixedWindow, Quota: 1, Window: day})
	take := func(key string) (exact.Verdict, error) {
		return m.Take(t.Context(), exact.Call{Key: key, Cost: 1, Policy: p})
	}
	var spent []string
	for n := range 5000 {
		if _, err := take(strconv.Itoa(n)); err == nil {
			spent = append(spent, strconv.Itoa(n))
		}
	}
	clock.Advance(3 * day)
	for n := range 3000 {
		_, err := take("other " + strconv.Itoa(n))
		require.ErrorIs(t, err, exact.ErrFull)
		clock.Advance(time.Second)
	}
	clock.Advance(-3 * day)
	for _, key := range spent {
		v, err := take(key)
		require.NoError(t, err)
		require.False(t, v.Admitted, "a fresh quota")
	}
}
