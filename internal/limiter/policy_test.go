// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

func TestDefaults(t *testing.T) {
	type l = storeless.Limit
	long := strings.Repeat("a", 32)
	for _, row := range []struct {
		policy string
		limits []storeless.Limit
		names  []string
	}{
		{"contact", []l{{Quota: 5, Window: minute}}, []string{"contact"}},
		{"contact", []l{{Quota: 5, Window: minute}, {Quota: 50, Window: day}}, []string{"contact", "contact-24h"}},
		{"p", []l{{Name: "x", Quota: 5, Window: minute}, {Quota: 5, Window: hour}}, []string{"x", "p"}},
		{"p", []l{{Quota: 5, Window: minute}, {Name: "p", Quota: 5, Window: hour}}, []string{"p-1m", "p"}},
		{"p", []l{{Quota: 5, Window: second}, {Quota: 5, Window: 90 * second}, {Quota: 5, Window: 90 * minute}, {Quota: 5, Window: 36 * hour}}, []string{"p", "p-90s", "p-90m", "p-36h"}},
		{long, []l{{Quota: 5, Window: minute}, {Quota: 5, Window: storeless.MaxWindow - second}}, []string{long, long + "-31622399s"}},
	} {
		p, err := limiter.Compile(row.policy, row.limits)
		require.NoError(t, err)
		require.Equal(t, row.policy, p.Name())
		require.Equal(t, len(row.names), p.Len())
		for i, name := range row.names {
			require.Equal(t, name, p.Limit(i).Name)
		}
	}
	p := compile(t, l{Algorithm: storeless.TokenBucket, Quota: 7, Window: minute}, l{Algorithm: storeless.LeakyBucket, Quota: 7, Window: minute}, l{Quota: 9, Window: minute, Name: "w"})
	require.Equal(t, []int64{7, 1, 0}, []int64{p.Limit(0).Burst, p.Limit(1).Burst, p.Limit(2).Burst})
	require.Equal(t, int64(1), p.Capacity())
	require.Equal(t, storeless.SlidingWindow, p.Limit(2).Algorithm)
}

// A count is found again by what its limit is, not by how much it allows: and
// tokens out there hold these numbers, so they may not change between releases.
func TestID(t *testing.T) {
	type l = storeless.Limit
	id := func(l storeless.Limit) uint32 { return compile(t, l).ID(0) }
	base := id(l{Name: "a", Quota: 5, Window: minute})
	require.Equal(t, base, id(l{Name: "a", Quota: 9, Window: minute}))
	require.NotEqual(t, base, id(l{Name: "b", Quota: 5, Window: minute}))
	require.NotEqual(t, base, id(l{Name: "a", Quota: 5, Window: hour}))
	require.NotEqual(t, base, id(l{Name: "a", Quota: 5, Window: minute, Algorithm: storeless.FixedWindow}))
	bucket := id(l{Name: "a", Quota: 5, Window: minute, Algorithm: storeless.TokenBucket})
	require.Equal(t, bucket, id(l{Name: "a", Quota: 5, Window: minute, Algorithm: storeless.TokenBucket, Burst: 2}))
	require.Equal(t, [2]uint32{13927124, 15719048}, [2]uint32{base, bucket})
}

func TestAlgorithmNames(t *testing.T) {
	var names []string
	for a := range storeless.Algorithm(7) {
		names = append(names, a.String())
	}
	require.Equal(t, "sliding-window fixed-window token-bucket leaky-bucket sliding-log rolling-day Algorithm(6)", strings.Join(names, " "))
}

// Shape is what a tally fits: order, algorithm, window and name, and nothing else.
func TestSameShape(t *testing.T) {
	type l = storeless.Limit
	base := []l{{Name: "a", Quota: 5, Window: minute}, {Name: "b", Algorithm: storeless.TokenBucket, Quota: 5, Window: hour, Burst: 2}}
	with := func(change func([]l) []l) *limiter.Policy {
		return compile(t, change(append([]l(nil), base...))...)
	}
	for _, row := range []struct {
		name   string
		policy *limiter.Policy
		same   bool
	}{
		{"itself", with(func(l []l) []l { return l }), true},
		{"another quota and burst", with(func(l []l) []l { l[0].Quota, l[1].Burst = 7, 9; return l }), true},
		{"another order", with(func(l []l) []l { l[0], l[1] = l[1], l[0]; return l }), false},
		{"another name", with(func(l []l) []l { l[0].Name = "c"; return l }), false},
		{"another window", with(func(l []l) []l { l[0].Window = hour; return l }), false},
		{"another algorithm", with(func(l []l) []l { l[0].Algorithm = storeless.FixedWindow; return l }), false},
		{"fewer", with(func(l []l) []l { return l[:1] }), false},
		{"more", with(func(l []l) []l { return append(l, storeless.Limit{Quota: 1, Window: day}) }), false},
	} {
		p := compile(t, base...)
		require.Equal(t, row.same, p.SameShape(row.policy), row.name)
		require.Equal(t, row.same, row.policy.SameShape(p), row.name)
	}
	p, err := limiter.Compile("other", base)
	require.NoError(t, err)
	require.True(t, p.SameShape(compile(t, base...)), "a policy's name is not its shape")
}

func TestScale(t *testing.T) {
	type l = storeless.Limit
	for i, row := range []struct {
		limit  storeless.Limit
		factor int64
		quota  int64
		burst  int64
	}{
		{l{Quota: 5, Window: minute}, 8, 40, 0},
		{l{Quota: 5, Window: minute}, 1, 5, 0},
		{l{Quota: 5, Window: minute}, math.MaxInt64, storeless.MaxQuota, 0},
		{l{Quota: storeless.MaxQuota, Window: minute}, 1 << 33, storeless.MaxQuota, 0},
		{l{Algorithm: storeless.FixedWindow, Quota: 1 << 28, Window: minute}, 64, storeless.MaxQuota, 0},
		{l{Algorithm: storeless.TokenBucket, Quota: 60, Window: minute, Burst: 3}, 8, 480, 24},
		{l{Algorithm: storeless.TokenBucket, Quota: 60, Window: minute}, math.MaxInt64, storeless.MaxQuota, storeless.MaxQuota},
		{l{Algorithm: storeless.TokenBucket, Quota: 7, Window: storeless.MaxWindow}, 1, 7, 7},
		{l{Algorithm: storeless.TokenBucket, Quota: 7, Window: storeless.MaxWindow}, 8, 56, 56},
		{l{Algorithm: storeless.TokenBucket, Quota: storeless.MaxQuota, Window: storeless.MaxWindow}, 8, storeless.MaxQuota, storeless.MaxQuota},
		{l{Algorithm: storeless.LeakyBucket, Quota: 60, Window: minute}, 8, 480, 8}, // a meter for one is a bucket for many
	} {
		p := compile(t, row.limit)
		q := p.Scale(row.factor)
		require.True(t, p.SameShape(q), "row %d", i)
		require.Equal(t, p.Name(), q.Name(), "row %d", i)
		require.Equal(t, [2]int64{row.quota, row.burst}, [2]int64{q.Limit(0).Quota, q.Limit(0).Burst}, "row %d", i)
		require.GreaterOrEqual(t, q.Capacity(), p.Capacity(), "row %d", i)
		_, v := q.Step(midnight, limiter.Tally{}, p.Capacity())
		require.True(t, v.Admitted, "row %d: no network is narrower than one of its clients", i)
	}
	p := compile(t, l{Quota: 5, Window: minute})
	require.Panics(t, func() { p.Scale(0) })
	require.Panics(t, func() { p.Scale(-8) })
}
