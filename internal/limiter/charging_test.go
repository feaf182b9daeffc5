// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// A request that is charged in part at the door and in part later: the second limit checks
// what is held, is not charged, and leaves no cell behind.
func TestChargingOnlySomeLimits(t *testing.T) {
	for _, algorithm := range []storeless.Algorithm{storeless.FixedWindow, storeless.SlidingWindow, storeless.TokenBucket} {
		t.Run(algorithm.String(), func(t *testing.T) {
			p, err := limiter.Compile("login", []storeless.Limit{
				{Name: "attempts", Quota: 100, Window: time.Minute},
				{Name: "failures", Algorithm: algorithm, Quota: 5, Window: time.Minute},
			})
			require.NoError(t, err)
			door := p.Charging(func(i int) bool { return i == 0 })
			late := p.Charging(func(i int) bool { return i == 1 })
			for _, same := range []*limiter.Policy{door.Scale(1), door.Share(1), door.Among(door)} {
				_, v := same.Step(time.Unix(0, 0), limiter.Tally{}, 5)
				require.EqualValues(t, 0, v.Limits[1].Remaining)
				tally, _ := same.Step(time.Unix(0, 0), limiter.Tally{}, 5)
				require.Zero(t, tally[1].Cur, "still charged later")
			}

			now := time.Unix(60_000_000, 0)
			m := limiter.NewMemory(64, 2)
			f := limiter.Candidate{Key: m.Key([]byte("a"))}
			for held := range int64(5) {
				f.Held = held
				tally, v := m.Take(now, door, &f, 1)
				require.True(t, v.Admitted)
				require.EqualValues(t, 1+held, tally[0].Cur)
				require.Zero(t, tally[1].Cur)
				require.EqualValues(t, 4-held, v.Limits[1].Remaining, "as if it were charged")
			}
			f.Held = 5
			tally, v := m.Take(now, door, &f, 1)
			require.False(t, v.Admitted)
			require.True(t, v.Limits[1].Blocked)
			require.Equal(t, time.Second, v.Wait, "nobody knows")
			require.EqualValues(t, 5, tally[0].Cur)

			for range 5 {
				m.Record(now, late, &f, 1)
			}
			f.Held = 0
			_, v = m.Take(now, door, &f, 1)
			require.False(t, v.Admitted)
			require.Greater(t, v.Wait, time.Second)
			tally, _ = m.Take(now, door, &f, 0)
			require.EqualValues(t, 5, tally[0].Cur, "Record charges what the door does not")
			tally = m.Restore(now, now, late, &f, 5)
			require.EqualValues(t, 5, tally[0].Cur)
			_, v = m.Take(now, door, &f, 0)
			require.EqualValues(t, 5, v.Limits[1].Remaining)

			_, v = m.Take(now, door, &f, 6)
			require.True(t, v.Impossible, "above the quota of a limit that is charged later")
		})
	}
}

// Where nothing is charged, nothing is left behind.
func TestChargingLeavesNoCell(t *testing.T) {
	p, err := limiter.Compile("login", []storeless.Limit{{Quota: 5, Window: time.Minute}})
	require.NoError(t, err)
	none := p.Charging(func(int) bool { return false })
	m, now := limiter.NewMemory(64, 1), time.Unix(60_000_000, 0)
	f := limiter.Candidate{Key: m.Key([]byte("a"))}
	_, v := m.Take(now, none, &f, 1)
	require.True(t, v.Admitted)
	require.Zero(t, m.Fill(now))
	m.Take(now, p, &f, 1)
	require.NotZero(t, m.Fill(now))
}
