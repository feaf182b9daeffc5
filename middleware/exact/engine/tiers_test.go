// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/storeless"
)

// A key that is charged under a tier of a small bucket keeps what it owes to a large
// one, however large: an account has one clock, which does not step back.
func TestDebtOfALargerTierStaysInTheAccount(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	for name, more := range map[string][]storeless.Limit{
		"buckets alone": nil,
		"with a log":    {{Name: "log", Algorithm: storeless.SlidingLog, Quota: exact.MaxLog, Window: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			bucket := func(quota, burst int64) *exact.Policy {
				p, err := exact.Compile("api", append([]storeless.Limit{
					{Name: "b", Algorithm: storeless.TokenBucket, Quota: quota, Burst: burst, Window: time.Minute}}, more...))
				require.NoError(t, err)
				return p
			}
			large, small := bucket(1, 600), bucket(60, 1) // ten hours of debt, and a second
			var a engine.Account
			require.True(t, a.Take(start, &exact.Call{Key: "k", Cost: 600, Policy: large}).Admitted)
			v := a.Take(start, &exact.Call{Key: "k", Cost: 1, Policy: small})
			require.False(t, v.Admitted)
			require.Equal(t, 10*time.Hour, v.Wait)

			passed := start.Add(10 * time.Hour)
			require.True(t, a.Take(passed, &exact.Call{Key: "k", Cost: 1, Policy: small}).Admitted)
			require.Equal(t, int64(599), a.Peek(passed, &exact.Call{Key: "k", Cost: 1, Policy: large}).Limits[0].Remaining)
		})
	}
}
