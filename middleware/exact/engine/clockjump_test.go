// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// A clock that steps back by no more than the account counts for gives no key a fresh quota; from
// further ahead the account begins anew. A bucket counts for as long as it empties, and a policy of
// the same name for as long as the longer of both.
func TestClockThatStepsBackByMoreThanAnAccountLasts(t *testing.T) {
	minute := storeless.Limit{Name: "minute", Algorithm: storeless.FixedWindow, Quota: 5, Window: time.Minute}
	bucket := storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 1, Window: time.Minute, Burst: 60}
	for name, tt := range map[string]struct {
		limits []storeless.Limit
		before []storeless.Limit // charged before, under the same name
		holds  time.Duration
	}{
		"window":               {limits: []storeless.Limit{minute}, holds: time.Minute},
		"the longest window":   {limits: []storeless.Limit{minute, {Name: "hour", Quota: 50, Window: time.Hour}}, holds: time.Hour},
		"bucket":               {limits: []storeless.Limit{bucket}, holds: time.Hour},
		"day":                  {limits: []storeless.Limit{{Algorithm: storeless.RollingDay, Quota: 5, Window: day}}, holds: day},
		"a month":              {limits: []storeless.Limit{{Calendar: "month", Quota: 5}}, holds: 31*day + time.Hour},
		"with a longer policy": {limits: []storeless.Limit{minute}, before: []storeless.Limit{{Name: "hour", Quota: 50, Window: time.Hour}}, holds: time.Hour},
	} {
		for by, fresh := range map[time.Duration]bool{tt.holds: false, tt.holds + time.Second: true} {
			clock := exacttest.NewClock()
			clock.Advance(year)
			var a engine.Account
			if tt.before != nil {
				a.Take(clock.Now(), &exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, tt.before...)})
			}
			call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, tt.limits...)}
			for a.Take(clock.Now(), &call).Admitted {
			}
			reload(t, &a)
			clock.Advance(-by)
			require.Equal(t, fresh, idleAt(&a, clock.Now().Add(-time.Hour)), "%s, %s", name, by)
			v := a.Take(clock.Now(), &call)
			require.Equal(t, fresh, v.Admitted, "%s, %s", name, by)
			if !fresh {
				require.Greater(t, v.Wait, by, name)
			}
		}
	}
}

// What a wrong clock has charged under another policy of the name is forgotten too: the
// account has one time.
func TestWrongClockIsForgottenUnderAllPolicies(t *testing.T) {
	clock, a := exacttest.NewClock(), new(engine.Account)
	minute := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, storeless.Limit{Name: "minute", Quota: 5, Window: time.Minute})}
	bucket := exact.Call{Key: "k", Cost: 5, Policy: exactkit.Compile(t, storeless.Limit{Name: "other", Algorithm: storeless.TokenBucket, Quota: 5, Window: time.Minute})}
	clock.Advance(year)
	require.True(t, a.Take(clock.Now(), &bucket).Admitted)
	clock.Advance(-year)
	require.True(t, a.Take(clock.Now(), &minute).Admitted)
	require.True(t, a.Take(clock.Now(), &bucket).Admitted)
	require.False(t, a.Take(clock.Now(), &bucket).Admitted)
}
