// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// problems lists an error of Compile the way the doc of ConfigError says.
func problems(t *testing.T, err error) (fields []string) {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok, "joined: %v", err)
	for _, e := range joined.Unwrap() {
		var problem *limiter.Problem
		require.ErrorAs(t, e, &problem)
		require.NotEmpty(t, problem.Problem)
		require.Equal(t, problem.Field+": "+problem.Problem, e.Error())
		fields = append(fields, problem.Field)
	}
	require.Len(t, strings.Split(err.Error(), "\n"), len(fields), "one problem a line")
	return fields
}

func TestCompileRefuses(t *testing.T) {
	good := limiter.Limit{Quota: 5, Window: minute}
	limit := func(change func(*limiter.Limit)) []limiter.Limit {
		l := good
		change(&l)
		return []limiter.Limit{l}
	}
	nine := make([]limiter.Limit, 9)
	for i := range nine {
		nine[i] = limiter.Limit{Name: fmt.Sprint(i), Quota: 5, Window: minute}
	}
	type l = limiter.Limit
	rows := []struct {
		name   string
		policy string
		limits []limiter.Limit
		fields []string // each refusal once, and nothing that only follows from it
	}{
		{"no name", "", []l{good}, []string{"Policy"}},
		{"a long name", strings.Repeat("a", 33), []l{good}, []string{"Policy"}},
		{"a name with capitals", "Contact", []l{good, {Quota: 1, Window: hour}}, []string{"Policy"}},
		{"a name with a space", "a b", []l{good}, []string{"Policy"}},
		{"a name beyond ASCII", "café", []l{good}, []string{"Policy"}},
		{"a name that ends a field", "a;b", []l{good}, []string{"Policy"}},
		{"a name that ends a line", "a\nb", []l{good}, []string{"Policy"}},
		{"no limits", "p", nil, []string{"Limits"}},
		{"an empty list of limits", "p", []l{}, []string{"Limits"}},
		{"nine limits", "p", nine, []string{"Limits"}},
		{"nine limits, one of them bad", "p", append([]l{{Name: "x", Window: minute}}, nine[:8]...), []string{"Limits", "Limits[0].Quota"}},
		{"a limit's name with capitals", "p", limit(func(l *l) { l.Name = "X" }), []string{"Limits[0].Name"}},
		{"a limit's long name", "p", limit(func(l *l) { l.Name = strings.Repeat("a", 49) }), []string{"Limits[0].Name"}},
		{"an algorithm that is none", "p", limit(func(l *l) { l.Algorithm = 4 }), []string{"Limits[0].Algorithm"}},
		{"quota zero", "p", limit(func(l *l) { l.Quota = 0 }), []string{"Limits[0].Quota"}},
		{"quota negative", "p", limit(func(l *l) { l.Quota = -1 }), []string{"Limits[0].Quota"}},
		{"quota overflowing", "p", limit(func(l *l) { l.Quota = limiter.MaxQuota + 1 }), []string{"Limits[0].Quota"}},
		{"quota at the end of int64", "p", limit(func(l *l) { l.Quota = math.MaxInt64 }), []string{"Limits[0].Quota"}},
		{"quota zero, of a bucket", "p", limit(func(l *l) { l.Algorithm, l.Quota = limiter.TokenBucket, 0 }), []string{"Limits[0].Quota"}},
		{"window zero", "p", limit(func(l *l) { l.Window = 0 }), []string{"Limits[0].Window"}},
		{"window negative", "p", limit(func(l *l) { l.Window = -minute }), []string{"Limits[0].Window"}},
		{"window below a second", "p", limit(func(l *l) { l.Window = second - 1 }), []string{"Limits[0].Window"}},
		{"window of broken seconds", "p", limit(func(l *l) { l.Window = second * 3 / 2 }), []string{"Limits[0].Window"}},
		{"window too long", "p", limit(func(l *l) { l.Window = limiter.MaxWindow + second }), []string{"Limits[0].Window"}},
		{"window at the end of int64", "p", limit(func(l *l) { l.Window = math.MaxInt64 }), []string{"Limits[0].Window"}},
		{"two windows of zero", "p", []l{{Quota: 1}, {Quota: 2}, {Quota: 3}}, []string{"Limits[0].Window", "Limits[1].Window", "Limits[2].Window"}},
		{"a burst in a window", "p", limit(func(l *l) { l.Burst = 1 }), []string{"Limits[0].Burst"}},
		{"a negative burst in a window", "p", limit(func(l *l) { l.Burst = -1 }), []string{"Limits[0].Burst"}},
		{"a burst in a fixed window", "p", limit(func(l *l) { l.Algorithm, l.Burst = limiter.FixedWindow, 1 }), []string{"Limits[0].Burst"}},
		{"burst negative", "p", limit(func(l *l) { l.Algorithm, l.Burst = limiter.TokenBucket, -1 }), []string{"Limits[0].Burst"}},
		{"burst overflowing", "p", limit(func(l *l) { l.Algorithm, l.Burst = limiter.TokenBucket, limiter.MaxQuota+1 }), []string{"Limits[0].Burst"}},
		{"a bucket that empties in more than a year", "p", []l{{Algorithm: limiter.TokenBucket, Quota: 1, Window: limiter.MaxWindow, Burst: 2}}, []string{"Limits[0].Burst"}},
		{"a meter with a burst", "p", limit(func(l *l) { l.Algorithm, l.Burst = limiter.LeakyBucket, 2 }), []string{"Limits[0].Burst"}},
		{"a meter with a negative burst", "p", limit(func(l *l) { l.Algorithm, l.Burst = limiter.LeakyBucket, -1 }), []string{"Limits[0].Burst"}},
		{"a name twice", "p", []l{{Name: "a", Quota: 5, Window: minute}, {Name: "a", Quota: 5, Window: hour}}, []string{"Limits[1].Name"}},
		{"a default name twice", "p", []l{good, good, good}, []string{"Limits[2].Name"}},
		{"a default name that is taken", "p", []l{good, {Name: "p-1h", Quota: 1, Window: day}, {Quota: 1, Window: hour}}, []string{"Limits[2].Name"}},
		{"a name twice, where the second is bad besides", "p", []l{{Name: "a", Quota: 5, Window: minute}, {Name: "a", Window: hour}}, []string{"Limits[1].Quota", "Limits[1].Name"}},
		{"everything at once", "P", []l{{Name: "X", Algorithm: 9, Quota: -1, Window: 1, Burst: 7}, good, {Name: "b", Window: hour}},
			[]string{"Policy", "Limits[0].Name", "Limits[0].Algorithm", "Limits[0].Quota", "Limits[0].Window", "Limits[0].Burst", "Limits[2].Quota"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			p, err := limiter.Compile(row.policy, row.limits)
			require.Nil(t, p)
			require.Error(t, err)
			require.Equal(t, row.fields, problems(t, err), "%v", err)
		})
	}
}

// Two names that hash to one short id would share a count.
func TestCompileRefusesCollidingIDs(t *testing.T) {
	seen := map[uint32]string{}
	for i := range 100_000 {
		name := fmt.Sprint("n", i)
		p := compile(t, limiter.Limit{Name: name, Quota: 5, Window: minute})
		require.Less(t, p.ID(0), uint32(1<<24))
		other, found := seen[p.ID(0)]
		seen[p.ID(0)] = name
		if !found {
			continue
		}
		limits := []limiter.Limit{{Name: other, Quota: 5, Window: minute}, {Name: name, Quota: 5, Window: minute}}
		_, err := limiter.Compile("p", limits)
		require.Equal(t, []string{"Limits[1].Name"}, problems(t, err))
		require.ErrorContains(t, err, "rename one")
		q := compile(t, limits[0])
		require.Equal(t, q.ID(0), p.ID(0))
		require.False(t, p.SameShape(q), "nor are they the same limit")
		return
	}
	t.Fatal("no collision among 100,000 names in 24 bits")
}

func TestDefaults(t *testing.T) {
	type l = limiter.Limit
	long := strings.Repeat("a", 32)
	for _, row := range []struct {
		policy string
		limits []limiter.Limit
		names  []string
	}{
		{"contact", []l{{Quota: 5, Window: minute}}, []string{"contact"}},
		{"contact", []l{{Quota: 5, Window: minute}, {Quota: 50, Window: day}}, []string{"contact", "contact-24h"}},
		{"p", []l{{Name: "x", Quota: 5, Window: minute}, {Quota: 5, Window: hour}}, []string{"x", "p"}},
		{"p", []l{{Quota: 5, Window: minute}, {Name: "p", Quota: 5, Window: hour}}, []string{"p-1m", "p"}},
		{"p", []l{{Quota: 5, Window: second}, {Quota: 5, Window: 90 * second}, {Quota: 5, Window: 90 * minute}, {Quota: 5, Window: 36 * hour}}, []string{"p", "p-90s", "p-90m", "p-36h"}},
		{long, []l{{Quota: 5, Window: minute}, {Quota: 5, Window: limiter.MaxWindow - second}}, []string{long, long + "-31622399s"}},
		{"p", []l{{Name: strings.Repeat("z", 48), Quota: 5, Window: minute}}, []string{strings.Repeat("z", 48)}},
	} {
		p := kit.Must(limiter.Compile(row.policy, row.limits))(t)
		require.Equal(t, row.policy, p.Name())
		require.Equal(t, len(row.names), p.Len())
		for i, name := range row.names {
			require.Equal(t, name, p.Limit(i).Name)
		}
	}
	p := compile(t, l{Algorithm: limiter.TokenBucket, Quota: 7, Window: minute}, l{Algorithm: limiter.LeakyBucket, Quota: 7, Window: minute}, l{Quota: 9, Window: minute, Name: "w"})
	require.Equal(t, []int64{7, 1, 0}, []int64{p.Limit(0).Burst, p.Limit(1).Burst, p.Limit(2).Burst})
	require.Equal(t, int64(1), p.Capacity())
	require.Equal(t, limiter.SlidingWindow, p.Limit(2).Algorithm)
}

// A count is found again by what its limit is, not by how much it allows: and
// tokens out there hold these numbers, so they may not change between releases.
func TestID(t *testing.T) {
	type l = limiter.Limit
	id := func(l limiter.Limit) uint32 { return compile(t, l).ID(0) }
	base := id(l{Name: "a", Quota: 5, Window: minute})
	require.Equal(t, base, id(l{Name: "a", Quota: 9, Window: minute}))
	require.NotEqual(t, base, id(l{Name: "b", Quota: 5, Window: minute}))
	require.NotEqual(t, base, id(l{Name: "a", Quota: 5, Window: hour}))
	require.NotEqual(t, base, id(l{Name: "a", Quota: 5, Window: minute, Algorithm: limiter.FixedWindow}))
	bucket := id(l{Name: "a", Quota: 5, Window: minute, Algorithm: limiter.TokenBucket})
	require.Equal(t, bucket, id(l{Name: "a", Quota: 5, Window: minute, Algorithm: limiter.TokenBucket, Burst: 2}))
	require.Equal(t, [2]uint32{13927124, 15719048}, [2]uint32{base, bucket})
}

func TestAlgorithmNames(t *testing.T) {
	var names []string
	for a := range limiter.Algorithm(7) {
		names = append(names, a.String())
	}
	require.Equal(t, "sliding-window fixed-window token-bucket leaky-bucket sliding-log rolling-day Algorithm(6)", strings.Join(names, " "))
}

// Shape is what a tally fits: order, algorithm, window and name, and nothing else.
func TestSameShape(t *testing.T) {
	type l = limiter.Limit
	base := []l{{Name: "a", Quota: 5, Window: minute}, {Name: "b", Algorithm: limiter.TokenBucket, Quota: 5, Window: hour, Burst: 2}}
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
		{"another algorithm", with(func(l []l) []l { l[0].Algorithm = limiter.FixedWindow; return l }), false},
		{"fewer", with(func(l []l) []l { return l[:1] }), false},
		{"more", with(func(l []l) []l { return append(l, limiter.Limit{Quota: 1, Window: day}) }), false},
	} {
		p := compile(t, base...)
		require.Equal(t, row.same, p.SameShape(row.policy), row.name)
		require.Equal(t, row.same, row.policy.SameShape(p), row.name)
	}
	p := kit.Must(limiter.Compile("other", base))(t)
	require.True(t, p.SameShape(compile(t, base...)), "a policy's name is not its shape")
}

func TestScale(t *testing.T) {
	type l = limiter.Limit
	for i, row := range []struct {
		limit  limiter.Limit
		factor int64
		quota  int64
		burst  int64
	}{
		{l{Quota: 5, Window: minute}, 8, 40, 0},
		{l{Quota: 5, Window: minute}, 1, 5, 0},
		{l{Quota: 5, Window: minute}, math.MaxInt64, limiter.MaxQuota, 0},
		{l{Quota: limiter.MaxQuota, Window: minute}, 1 << 33, limiter.MaxQuota, 0},
		{l{Algorithm: limiter.FixedWindow, Quota: 1 << 28, Window: minute}, 64, limiter.MaxQuota, 0},
		{l{Algorithm: limiter.TokenBucket, Quota: 60, Window: minute, Burst: 3}, 8, 480, 24},
		{l{Algorithm: limiter.TokenBucket, Quota: 60, Window: minute}, math.MaxInt64, limiter.MaxQuota, limiter.MaxQuota},
		{l{Algorithm: limiter.TokenBucket, Quota: 7, Window: limiter.MaxWindow}, 1, 7, 7},
		{l{Algorithm: limiter.TokenBucket, Quota: 7, Window: limiter.MaxWindow}, 8, 56, 56},
		{l{Algorithm: limiter.TokenBucket, Quota: limiter.MaxQuota, Window: limiter.MaxWindow}, 8, limiter.MaxQuota, limiter.MaxQuota},
		{l{Algorithm: limiter.LeakyBucket, Quota: 60, Window: minute}, 8, 480, 8}, // a meter for one is a bucket for many
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

// All problems come at once, each with its field and what is permitted.
func ExampleCompile() {
	_, err := limiter.Compile("Contact form", []limiter.Limit{
		{Window: 90 * time.Millisecond},
		{Quota: 5, Window: time.Hour, Burst: 10},
		{Algorithm: limiter.TokenBucket, Quota: 1, Window: 24 * time.Hour, Burst: 1000},
	})
	fmt.Println(err)
	// Output:
	// Policy: must be 1 to 32 of a-z, 0-9 and -
	// Limits[0].Quota: must be from 1 to 2147483647, not 0
	// Limits[0].Window: must be whole seconds, from 1 s to 366 days, not 90 ms
	// Limits[1].Burst: belongs to a TokenBucket; leave it 0 without one
	// Limits[2].Burst: a bucket of 1000 would take longer than 366 days to empty; use at most 366
}
