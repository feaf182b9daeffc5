// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/exactkit"
)

// namesOf returns the names of all accounts of a counter.
func namesOf(t *testing.T, c engine.Archive) []string {
	t.Helper()
	names := map[string]int{}
	require.NoError(t, c.Each(t.Context(), func(r engine.Record) error { names[r.Name]++; return nil }))
	for name, n := range names {
		require.Equal(t, 1, n, "%x", name)
	}
	return slices.Sorted(maps.Keys(names))
}

// Accounts are found among whatever else there is, also of a hash of before, and also where what
// begins the names has bytes that a pattern has.
func TestAccountsAreFoundAmongOtherKeys(t *testing.T) {
	s := startServer(t)
	p := exactkit.PerYear(t, 10)
	for _, prefix := range []string{"", "a", `a*[b]?\:`} {
		c, err := redis.Open(s.url(), redis.Config{Prefix: prefix})
		require.NoError(t, err)
		defer c.Close() //nolint:errcheck // of a test
		connected(t, c)
		var want []string
		for n := range 30 {
			exactkit.Take(t, c, exact.Call{Key: strconv.Itoa(n), Cost: 1, Policy: p, ID: strconv.Itoa(n)})
			want = append(want, p.AccountName(strconv.Itoa(n)))
		}
		old := c.(*redis.Counter).Account(p, "old")
		s.do("HSET", old, ".t", strconv.FormatInt(time.Now().UnixMicro(), 10), ".n", "3", ".e", strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10), strconv.FormatUint(uint64(p.ID(0)), 36), strconv.FormatInt(time.Now().Unix()/int64(p.Limit(0).Window.Seconds()), 10)+" 4 0")
		want = append(want, p.AccountName("old"))
		s.do("SET", old+":t:x", "1")
		s.do("SET", "a{0123456789012345678901", "1")
		s.do("SET", prefix+"{!!!!!!!!!!!!!!!!!!!!!!}", "1")
		require.Equal(t, slices.Sorted(slices.Values(want)), namesOf(t, c))

		m := memory.New(0, nil)
		copied, kept, err := engine.Copy(t.Context(), m, c)
		require.NoError(t, err)
		require.Equal(t, [2]int{31, 0}, [2]int{copied, kept})
		for key, remaining := range map[string]int64{"7": 9, "old": 6, "none": 10} {
			require.Equal(t, remaining, exactkit.Left(t, m, exact.Call{Key: key, Cost: 1, Policy: p}), key)
		}
	}
}

// What has come back of many charges, in any order, is known to the server when an account was
// moved there, and to the next when it was moved on.
func TestMovedAccountKnowsWhatCameBack(t *testing.T) {
	c := open(t, startServer(t).url())
	p := exactkit.PerYear(t, 1<<20)
	now, a := time.Now(), new(engine.Account)
	var receipts []exact.Receipt
	for n := range 9_000 {
		v := a.Take(now, &exact.Call{Key: "k", Cost: 1, Policy: p})
		if receipts = append(receipts, v.Receipt); n%3 == 0 {
			require.NoError(t, a.Refund(now, &v.Receipt))
		}
	}
	name := p.AccountName("k")
	require.NoError(t, c.Restore(t.Context(), engine.Record{Name: name, Account: a}))
	require.ErrorIs(t, c.Restore(t.Context(), engine.Record{Name: name, Account: a}), engine.ErrKept)
	for i := 0; i < len(receipts); i += 7 {
		want := a.Refund(now, &receipts[i])
		got := c.Refund(t.Context(), receipts[i])
		require.Equal(t, want == nil, got == nil, "%d: %v, %v", i, want, got)
		require.Equal(t, errors.Is(want, exact.ErrLateRefund), errors.Is(got, exact.ErrLateRefund), i)
	}
	m := memory.New(0, nil)
	copied, _, err := engine.Copy(t.Context(), m, c)
	require.NoError(t, err)
	require.Equal(t, 1, copied)
	for i := range receipts {
		want := a.Refund(now, &receipts[i])
		got := m.Refund(t.Context(), receipts[i])
		require.Equal(t, want == nil, got == nil, "%d: %v, %v", i, want, got)
	}
	require.NoError(t, c.Forget(t.Context(), name))
	require.Empty(t, namesOf(t, c))
}
