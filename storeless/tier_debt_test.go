package storeless_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/storeless"
)

// Who spends a large tier's burst and shows that to a fresh instance in a small
// tier does not get a fresh bucket there.
func TestDebtOfALargerTierIsOwed(t *testing.T) {
	bucket := func(quota, burst int64) *storeless.Policy {
		p, err := storeless.Compile("api", []storeless.Limit{{Algorithm: storeless.TokenBucket, Quota: quota, Burst: burst, Window: 10 * time.Second}})
		require.NoError(t, err)
		return p
	}
	now := time.Unix(1_800_000_000, 0)
	spent, v := bucket(2, 8).Step(now, storeless.Tally{}, 8)
	require.True(t, v.Admitted)
	_, v = bucket(10, 1).Step(now, spent, 1)
	require.False(t, v.Admitted)
	require.Positive(t, v.Wait)
}
