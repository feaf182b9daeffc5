// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/exactkit"
)

// IDs of a busy account that have no room in it are found as long as all others: for
// exact.IDLife at least, over both hashes, and where the clock steps back; and they take no more
// room for that.
func TestIDsOfABusyAccount(t *testing.T) {
	s := startServer(t)
	c := s.byKey(redis.Config{})
	p := exactkit.PerYear(t, 1_000_000)
	now := time.Now().Add(48 * time.Hour)
	rng := rand.New(rand.NewPCG(1, 2))
	type asked struct {
		id      string
		at      time.Time
		receipt exact.Receipt
	}
	var all []asked
	batch := func(ids []string) []exact.Verdict {
		calls := make([]exact.Call, len(ids))
		for i, id := range ids {
			calls[i] = exact.Call{Key: "k", Cost: 1, Policy: p, ID: id}
		}
		v, err := c.Engine().TakeAll(t.Context(), calls)
		require.NoError(t, err)
		// The hashes expire by the server's own clock, which does not wait for a slow test.
		s.eval(`for _, k in ipairs(redis.call('KEYS', '*:s:*')) do redis.call('PERSIST', k) end return '1'`)
		return v
	}
	found := func(step int) {
		var ids []string
		var want []exact.Receipt
		for _, a := range all {
			if now.Sub(a.at) <= exact.IDLife {
				ids, want = append(ids, a.id), append(want, a.receipt)
			}
		}
		for len(ids) > 0 {
			n := min(len(ids), 200)
			for i, v := range batch(ids[:n]) {
				require.True(t, v.Replayed, "step %d: %s", step, ids[i])
				require.Equal(t, want[i].Serial, v.Receipt.Serial)
				require.Equal(t, want[i].At.UnixMicro(), v.Receipt.At.UnixMicro())
			}
			ids, want = ids[n:], want[n:]
		}
	}
	for step := range 60 {
		now = now.Add(time.Duration(rng.Int64N(int64(3 * time.Second))))
		s.at(now)
		var ids []string
		for range 1 + rng.IntN(60) {
			ids = append(ids, fmt.Sprint("ID", len(all)+len(ids)))
		}
		for i, v := range batch(ids) {
			require.True(t, v.Admitted)
			require.False(t, v.Replayed)
			all = append(all, asked{ids[i], now, v.Receipt})
		}
		found(step)
	}
	fields := func() int {
		n, err := strconv.Atoi(s.eval(`local n = 0 for _, k in ipairs(redis.call('KEYS', '*:s:*')) do n = n + redis.call('HLEN', k) end return tostring(n)`))
		require.NoError(t, err)
		return n
	}
	require.Greater(t, len(all), 1500)
	require.Positive(t, fields())
	require.Less(t, fields(), len(all)/2, "those of long ago are gone")
	for _, back := range []time.Duration{13 * time.Second, time.Hour} {
		known := all[:0:0]
		for _, a := range all {
			if now.Sub(a.at) <= exact.IDLife {
				known = append(known, a)
			}
		}
		now = now.Add(-back)
		s.at(now)
		for i, v := range batch([]string{fmt.Sprint("back ", back), fmt.Sprint("again ", back)}) {
			require.True(t, v.Admitted, i)
		}
		for range 3 {
			var ids []string
			for n := range 70 {
				ids = append(ids, fmt.Sprint("back ", back, n, rng.Uint64()))
			}
			batch(ids)
		}
		all = known
		for i := range all {
			all[i].at = now
		}
		found(-1)
	}
}

// An ID is found where it is one, and not where the bytes of others happen to hold its hash.
func TestIDsAreNotFoundInOthers(t *testing.T) {
	s, c := opened(t)
	p := exactkit.PerYear(t, 100)
	take := func(id string) exact.Verdict {
		return exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p, ID: id})
	}
	for n := range 3 {
		require.False(t, take(strconv.Itoa(n)).Replayed)
	}
	// The hash of another, over the numbers of the first.
	other := sha256.Sum256([]byte("other"))
	s.do("SETRANGE", c.Account(p, "k"), "62", string(other[:16]))
	require.False(t, take("other").Replayed)
	require.True(t, take("other").Replayed)
	require.True(t, take("2").Replayed)
}

// Refusals under IDs are remembered, the last of them, and take no room for more: not in the
// account, nor beside it.
func TestRefusalsUnderIDsAreBounded(t *testing.T) {
	s, c := opened(t)
	p := exactkit.PerYear(t, 1)
	take := func(key, id string, cost int64) exact.Verdict {
		return exactkit.Take(t, c, exact.Call{Key: key, Cost: cost, Policy: p, ID: id})
	}
	require.True(t, take("k", "first", 1).Admitted)
	for n := range 500 {
		require.False(t, take("k", fmt.Sprint(n), 1).Admitted)
	}
	require.True(t, take("k", "first", 1).Replayed, "no refusal has displaced it")
	for n := 490; n < 500; n++ {
		require.True(t, take("k", fmt.Sprint(n), 1).Replayed)
	}
	require.LessOrEqual(t, s.size(c.Account(p, "k")), 44+32*40)
	require.Equal(t, "1", s.eval(`return tostring(redis.call('HLEN', ARGV[1] .. ':s:0'))`, c.Account(p, "k")))

	// A key that nothing was ever charged on is gone soon.
	require.False(t, take("never", "an ID", 2).Admitted)
	require.Equal(t, "1", s.eval(`local ttl = redis.call('TTL', ARGV[1]) return ttl > 0 and ttl <= 12 and '1' or tostring(ttl)`, c.Account(p, "never")))
}
