// SPDX-License-Identifier: Apache-2.0

package exact_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

const day = 24 * time.Hour

func TestCompileReportsEveryProblem(t *testing.T) {
	_, err := exact.Compile("api", []storeless.Limit{
		{Algorithm: storeless.SlidingLog, Quota: exact.MaxLog + 1, Window: time.Hour},
		{Algorithm: storeless.RollingDay, Quota: 10, Window: time.Hour},
		{Algorithm: storeless.RollingDay, Quota: 0, Window: day, Burst: 3},
		{Name: "trial", Quota: 5, Window: day, Shadow: true},
	})
	require.EqualError(t, err, `Limits[2].Quota: must be from 1 to 2147483647, not 0
Limits[2].Burst: belongs to a TokenBucket; leave it 0 for a sliding-window
Limits[0].Quota: of a sliding-log must be at most 10000, not 10001; RollingDay and SlidingWindow have no such bound
Limits[1].Window: of a rolling-day must be 24h, not 1h0m0s
Limits[3].Shadow: cannot go with an exact counter, which charges all limits or none`)
}

// Tokens carry a sliding window of the same quota, and counters know the two apart.
func TestWhatTokensCannotCarry(t *testing.T) {
	for _, a := range []storeless.Algorithm{storeless.SlidingLog, storeless.RollingDay} {
		_, err := limiter.Compile("api", []storeless.Limit{{Algorithm: a, Quota: 5, Window: day}})
		require.EqualError(t, err, fmt.Sprintf("Limits[0].Algorithm: a %s needs an exact counter; SlidingWindow is what comes closest without one", a))
		p, plain := exactkit.Compile(t, storeless.Limit{Algorithm: a, Quota: 5, Window: day}), exactkit.Compile(t, storeless.Limit{Quota: 5, Window: day})
		require.Equal(t, a, p.Limit(0).Algorithm)
		require.Equal(t, plain.Plan().Tokens.Limit(0), p.Plan().Tokens.Limit(0))
		require.NotEqual(t, plain.ID(0), p.ID(0))
		require.False(t, p.SameShape(plain))
	}
}
