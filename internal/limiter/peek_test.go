// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
)

// Peek and Take are of one mind about the limits, whatever is shown, remembered
// and asked, of the tally and of its networks; and a peek leaves no trace.
func TestPeekIsTake(t *testing.T) {
	each(t, 4, func(t *testing.T, r *rand.Rand) {
		p := compile(t, randomLimits(r, 3, minute)...)
		m := limiter.NewMemory(1024, 3)
		now, refused := midnight, 0
		for range 2000 {
			now = now.Add(time.Duration(r.Int64N(int64(500 * time.Millisecond))))
			f := limiter.Candidate{Key: limiter.Key(r.Uint64N(8)) << 60}
			if r.IntN(2) == 0 {
				f.Shown = randomTally(r, p, now)
			}
			if r.IntN(2) == 0 {
				f.Networks = []limiter.Network{{Key: 1 << 40, Policy: p.Scale(2)}, {Key: 1 << 50, Policy: p.Scale(3)}}
			}
			cost := spread(r, 0, 2*p.Capacity())
			for _, m := range []*limiter.Memory{m, nil} {
				said := m.Peek(now, p, &f, cost)
				require.Equal(t, said, m.Peek(now, p, &f, cost), "a peek leaves a trace")
				_, v := m.Take(now, p, &f, cost)
				require.Equal(t, v.Admitted, said.Admitted)
				if !v.Admitted {
					require.Equal(t, v, said)
					refused++
				}
			}
		}
		require.Greater(t, refused, 200, "the workload is refused")
		require.Less(t, refused, 3800, "and admitted")
	})
}

// A peek spends no proof, and a tally of a wrong clock is as absent as to Take.
func TestPeekSpendsNothing(t *testing.T) {
	p := compile(t, limiter.Limit{Quota: 5, Window: minute})
	m := limiter.NewMemory(1, 1)
	f := limiter.Candidate{Key: 1, Proof: &limiter.Proof{Key: 2, Expires: midnight.Add(minute)}}
	for range 3 {
		require.True(t, m.Peek(midnight, p, &f, 1).Admitted)
	}
	_, v := m.Take(midnight, p, &f, 1)
	require.True(t, v.Admitted, "the proof was there to be spent")

	far := limiter.Candidate{Key: 3, Shown: limiter.Tally{{At: midnight.Unix()/60 + 1000, Cur: 5}}}
	for _, m := range []*limiter.Memory{m, nil} {
		require.True(t, m.Peek(midnight, p, &far, 1).Admitted)
		_, v := m.Take(midnight, p, &far, 1)
		require.True(t, v.Admitted)
		require.Panics(t, func() { m.Peek(midnight, p, &f, -1) })
	}
}

func TestPeekChargesNothing(t *testing.T) {
	p := compile(t, limiter.Limit{Quota: 3, Window: time.Minute})
	m := limiter.NewMemory(64, 1)
	wide := []limiter.Network{{Key: 2, Policy: p}}
	for range 9 {
		v := m.Peek(opening, p, &limiter.Candidate{Key: 1, Networks: wide}, 3)
		require.True(t, v.Admitted)
		require.EqualValues(t, 3, v.Limits[0].Remaining)
	}
}
