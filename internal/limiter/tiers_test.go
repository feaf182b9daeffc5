// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// Who spends a large tier's burst and shows that to a fresh instance in a small
// tier does not get a fresh bucket there.
func TestDebtOfALargerTierIsOwed(t *testing.T) {
	bucket := func(quota, burst int64) *limiter.Policy {
		p, err := limiter.Compile("api", []storeless.Limit{{Algorithm: storeless.TokenBucket, Quota: quota, Burst: burst, Window: 10 * time.Second}})
		require.NoError(t, err)
		return p
	}
	now := time.Unix(1_800_000_000, 0)
	tiers := tiersOf(bucket(2, 8), bucket(10, 1))
	spent, v := tiers[0].Step(now, limiter.Tally{}, 8)
	require.True(t, v.Admitted)
	_, v = tiers[1].Step(now, spent, 1)
	require.False(t, v.Admitted)
	require.Equal(t, 40*time.Second, v.Wait)
}
