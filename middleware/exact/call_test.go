// SPDX-License-Identifier: Apache-2.0

package exact_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

func TestWhatACallMayAskFor(t *testing.T) {
	buckets := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 5, Window: time.Second},
		storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 5, Window: time.Minute})
	mixed := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 5, Window: time.Second},
		storeless.Limit{Quota: 5, Window: time.Minute})
	for name, c := range map[string]struct {
		call  exact.Call
		field string
	}{
		"a plain call":                    {exact.Call{Policy: mixed, Cost: 1}, ""},
		"past":                            {exact.Call{Policy: mixed, Cost: 1, Past: true}, ""},
		"past, as dear as can be":         {exact.Call{Policy: mixed, Cost: storeless.MaxQuota, Past: true}, ""},
		"past, dearer":                    {exact.Call{Policy: mixed, Cost: storeless.MaxQuota + 1, Past: true}, "Cost"},
		"past, for nothing":               {exact.Call{Policy: mixed, Past: true}, "Cost"},
		"past, less than nothing":         {exact.Call{Policy: mixed, Cost: -1, Past: true, Pause: 1}, "Cost"},
		"ahead":                           {exact.Call{Policy: buckets, Cost: 1, Ahead: exact.MaxAhead}, ""},
		"further ahead":                   {exact.Call{Policy: buckets, Cost: 1, Ahead: exact.MaxAhead + 1}, "Ahead"},
		"behind":                          {exact.Call{Policy: buckets, Cost: 1, Ahead: -1}, "Ahead"},
		"ahead, for nothing":              {exact.Call{Policy: buckets, Ahead: 1}, "Cost"},
		"ahead in windows":                {exact.Call{Policy: mixed, Cost: 1, Ahead: 1}, "Ahead"},
		"ahead and past":                  {exact.Call{Policy: buckets, Cost: 1, Ahead: 1, Past: true}, "Ahead"},
		"ahead and a pause":               {exact.Call{Policy: buckets, Cost: 1, Ahead: 1, Pause: 1}, "Ahead"},
		"a pause":                         {exact.Call{Policy: mixed, Pause: exact.MaxPause}, ""},
		"a longer pause":                  {exact.Call{Policy: mixed, Pause: exact.MaxPause + 1}, "Pause"},
		"a pause that is over":            {exact.Call{Policy: mixed, Pause: -1}, "Pause"},
		"a pause and past":                {exact.Call{Policy: mixed, Cost: 3, Past: true, Pause: 1}, ""},
		"a pause, and past of nothing":    {exact.Call{Policy: mixed, Past: true, Pause: 1}, ""},
		"a pause that hangs on a verdict": {exact.Call{Policy: mixed, Cost: 1, Pause: 1}, "Pause"},
	} {
		t.Run(name, func(t *testing.T) {
			c.call.Key = "k"
			err := c.call.Check(context.Background())
			if c.field == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, exact.ErrCall)
			require.ErrorIs(t, err, exact.ErrNotCounted)
			require.ErrorContains(t, err, "a mistake in the Call: "+c.field+" ")
		})
	}
}

const day = 24 * time.Hour

func TestCompileReportsEveryProblem(t *testing.T) {
	_, err := exact.Compile("api", []storeless.Limit{
		{Algorithm: storeless.SlidingLog, Quota: exact.MaxLog + 1, Window: time.Hour},
		{Algorithm: storeless.RollingDay, Quota: 10, Window: time.Hour},
		{Algorithm: storeless.RollingDay, Quota: 0, Window: day, Burst: 3},
		{Name: "trial", Quota: 5, Window: day, Shadow: true},
	})
	require.EqualError(t, err, `Limits[2].Quota: must be from 1 to 2147483647, not 0
Limits[2].Burst: belongs to a TokenBucket; leave it 0 without one
Limits[0].Quota: of a sliding-log must be at most 10000, not 10001; RollingDay and SlidingWindow have no such bound
Limits[1].Window: of a rolling-day must be 24 h, not 1 h
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
