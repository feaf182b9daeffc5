// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// An account answers an ID with the admission of that time, for IDLife and no longer, and
// for the last 128 of them.
func TestAnAccountRemembersWhomItAdmitted(t *testing.T) {
	clock := exacttest.NewClock()
	var a engine.Account
	call := exact.Call{Key: "k", Cost: 2, Policy: exactkit.Compile(t, storeless.Limit{Quota: 1000, Window: time.Hour}), ID: "0"}
	first := a.Take(clock.Now(), &call)
	reload(t, &a)
	clock.Advance(exact.IDLife - time.Nanosecond)
	call.Cost = 7 // whatever else it says
	again := a.Take(clock.Now(), &call)
	require.True(t, again.Admitted && again.Replayed)
	require.True(t, first.Receipt.At.Equal(again.Receipt.At))
	require.Equal(t, first.Receipt.Serial, again.Receipt.Serial)
	require.EqualValues(t, 2, again.Receipt.Cost)
	require.EqualValues(t, 998, again.Limits[0].Remaining)
	clock.Advance(time.Nanosecond)
	late := a.Take(clock.Now(), &call)
	require.False(t, late.Replayed)
	require.EqualValues(t, 991, late.Limits[0].Remaining)

	call.Cost = 1
	for i := range 128 {
		call.ID = strconv.Itoa(i + 1)
		require.False(t, a.Take(clock.Now(), &call).Replayed)
	}
	reload(t, &a)
	call.ID = "1"
	require.True(t, a.Take(clock.Now(), &call).Replayed)
	call.ID = "0"
	require.False(t, a.Take(clock.Now(), &call).Replayed, "it is the 129th, counted from the last")
	call.ID = "1"
	require.False(t, a.Take(clock.Now(), &call).Replayed)
	require.Less(t, len(exactkit.Bytes(t, &a)), 128*31+100)
}

// A refusal is not remembered, and stores nothing.
func TestAnAccountRemembersNoRefusal(t *testing.T) {
	clock, a := exacttest.NewClock(), new(engine.Account)
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, storeless.Limit{Quota: 1, Window: time.Hour}), ID: "a"}
	r := a.Take(clock.Now(), &call).Receipt
	before := exactkit.Bytes(t, a)
	call.ID = "b"
	require.False(t, a.Take(clock.Now(), &call).Admitted)
	require.Equal(t, before, exactkit.Bytes(t, a))
	require.NoError(t, a.Refund(clock.Now(), &r))
	v := a.Take(clock.Now(), &call)
	require.True(t, v.Admitted && !v.Replayed)
}

// An account says when it expires: at that moment it is idle, and just before it is not.
func TestAnAccountSaysWhenItExpires(t *testing.T) {
	meter := storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 1, Window: time.Second}
	for name, row := range map[string]struct {
		limit storeless.Limit
		call  exact.Call
		after time.Duration
	}{
		"a window":          {storeless.Limit{Quota: 5, Window: time.Minute}, exact.Call{Cost: 1}, 2 * time.Minute},
		"a log":             {storeless.Limit{Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Minute}, exact.Call{Cost: 1}, time.Minute + time.Second},
		"a debt":            {meter, exact.Call{Cost: 100, Past: true}, 102 * time.Second},
		"a pause":           {meter, exact.Call{Pause: time.Hour}, time.Hour},
		"an ID":             {meter, exact.Call{Cost: 1, ID: "a"}, exact.IDLife},
		"an ID of a window": {storeless.Limit{Quota: 5, Window: time.Minute}, exact.Call{Cost: 1, ID: "a"}, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			clock, a := exacttest.NewClock(), new(engine.Account)
			require.True(t, a.Expires().IsZero())
			row.call.Key, row.call.Policy = "k", exactkit.Compile(t, row.limit)
			require.True(t, a.Take(clock.Now(), &row.call).Admitted)
			require.Equal(t, row.after, a.Expires().Sub(clock.Now()))
			require.False(t, idleAt(a, a.Expires().Add(-time.Nanosecond)))
			require.True(t, idleAt(a, a.Expires()))
		})
	}
}
