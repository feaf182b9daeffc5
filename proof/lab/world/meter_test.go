// SPDX-License-Identifier: Apache-2.0

package world

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/lab/judge"
	"github.com/tallystick/tallystick/storeless"
)

// Where it is known when a request was decided, a meter says what the library decides: whatever
// the algorithm, at any pace.
func TestMetersAgreeWithTheLibrary(t *testing.T) {
	for _, policy := range []string{windowed, fixed, bucket} {
		t.Run(policy, func(t *testing.T) {
			p, err := limiter.Compile(policy, []middleware.Limit{limitOf(policy, 7)})
			require.NoError(t, err)
			random := rand.New(rand.NewPCG(1, 2))
			var tally limiter.Tally
			var refused int
			m, now, quota := newMeter(policy), time.Unix(1_800_000_000, 0), judge.Spread{Least: 7, Most: 7}
			for range 3000 {
				now = now.Add(time.Duration(random.IntN(3)*random.IntN(4)) * time.Second / 2)
				at := span{now.UnixMicro(), now.UnixMicro()}
				after, v := p.Step(now, tally, 1)
				require.Equal(t, v.Admitted, m.room(at, quota))
				if tally = after; v.Admitted {
					m.charge(at, quota, false)
				} else {
					refused++
				}
			}
			require.Greater(t, refused, 100)
		})
	}
}

// Where it is not known, it calls no refusal wrong that may be right.
func TestMetersErrInFavourOfTheServer(t *testing.T) {
	const w = 10 * time.Second
	limits := []middleware.Limit{{Algorithm: storeless.FixedWindow, Window: w}, {Name: failures, Quota: 1, Window: w}}
	m, two := &meter{limits: limits, used: make([]count, 2)}, judge.Spread{Least: 2, Most: 2}
	second := func(n int64) int64 { return n * 1e6 }
	m.charge(span{second(8), second(12)}, two, false) // in either window
	require.True(t, m.room(span{second(13), second(13)}, two))
	require.False(t, m.room(span{second(13), second(13)}, judge.Spread{Least: 1, Most: 2}), "the quota may have been lower")
	m.charge(span{second(13), second(13)}, two, false)
	require.False(t, m.room(span{second(14), second(14)}, two))
	require.False(t, m.room(span{second(14), second(21)}, two), "it may have come early")
	require.True(t, m.room(span{second(21), second(21)}, two))
	m.charge(span{second(21), second(21)}, two, true)
	require.False(t, m.room(span{second(22), second(22)}, two), "of failures there was one")
	require.True(t, new(meter).room(span{0, 1}, judge.Spread{}), "what has no limit has room")
}
