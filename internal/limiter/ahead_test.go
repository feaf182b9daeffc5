// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// What a clock has counted that is ahead by more than is allowed tells so, by as much as lies before its
// window, and nothing that a clock within the skew has counted does.
func TestAhead(t *testing.T) {
	p := compile(t,
		storeless.Limit{Name: "minute", Quota: 100, Window: minute},
		storeless.Limit{Name: "day", Algorithm: storeless.FixedWindow, Quota: 100, Window: day},
		storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 100, Window: day, Burst: 100})
	rnd := rand.New(rand.NewPCG(20, 26))
	for range 3000 {
		now := midnight.Add(time.Duration(rnd.Int64N(int64(2 * day))))
		fast := time.Duration(rnd.Int64N(int64(3*minute))) - minute
		if rnd.IntN(4) == 0 {
			fast *= 1000
		}
		counted, v := p.Step(now.Add(fast), limiter.Tally{}, 90) // a bucket that owes nearly a day
		require.True(t, v.Admitted)
		start := now.Add(fast).Truncate(minute)
		want := start.Sub(now.Truncate(tick))
		if want <= 5*second {
			want = 0
		}
		require.Equal(t, want, p.Ahead(now, &counted), "%v by a clock that is %v ahead", now, fast)
	}
	pass := p.Pass(hour)
	counted, _ := pass.Step(midnight.Add(2*minute), limiter.Tally{}, 1)
	require.Equal(t, 2*minute, pass.Ahead(midnight, &counted))
	require.Positive(t, p.Ahead(midnight, &limiter.Tally{{At: math.MaxInt64}}), "and no time that has overflowed")
	for _, at := range []int64{math.MaxInt64, math.MinInt64, -1} {
		require.NotPanics(t, func() { p.Ahead(midnight, &limiter.Tally{{At: at}, {At: at}, {At: at}}) })
		require.GreaterOrEqual(t, p.Ahead(midnight, &limiter.Tally{{At: at}}), time.Duration(0))
	}
}
