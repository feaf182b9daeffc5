// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// All that one limit has counted is one short string, and nothing else.
func TestAccountIsOneShortString(t *testing.T) {
	s, c := opened(t)
	p := exactkit.Compile(t, storeless.Limit{Quota: 1000, Window: time.Hour})
	for n := range 3 {
		exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
		require.Equal(t, ":1", s.do("DBSIZE"), n)
	}
	require.Equal(t, 44, s.size(c.Account(p, "k")), "so much lies beside its head in memory")
	require.Equal(t, "embstr", s.do("OBJECT", "ENCODING", c.Account(p, "k")))
	exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p, ID: "an ID"})
	require.Equal(t, 84, s.size(c.Account(p, "k")))
	require.Equal(t, ":1", s.do("DBSIZE"))
}

// Accounts of before, which are hashes, are taken over with all that they have counted, once: what becomes of
// their receipts, and of refusals, is TestFormsOfBefore.
func TestOldAccountsAreTakenOver(t *testing.T) {
	s, c := opened(t)
	day := storeless.Limit{Name: "day", Algorithm: storeless.FixedWindow, Quota: 10, Window: 24 * time.Hour}
	p := exactkit.Compile(t, exactkit.Yearly(10),
		storeless.Limit{Name: "sliding", Quota: 10, Window: 366 * 24 * time.Hour},
		storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 10, Window: 366 * 24 * time.Hour},
		storeless.Limit{Name: "log", Algorithm: storeless.SlidingLog, Quota: 10, Window: time.Hour})
	other := exactkit.Compile(t, storeless.Limit{Name: "other", Algorithm: storeless.FixedWindow, Quota: 3, Window: 365 * 24 * time.Hour}, day)
	const us = int64(1000)
	now := time.Now().Add(-time.Minute).UnixMicro()
	window := func(p *exact.Policy, i, cur, prev int) string {
		return fmt.Sprint(now/p.Limit(i).Window.Microseconds(), cur, prev)
	}
	field := func(p *exact.Policy, i int) string { return strconv.FormatUint(uint64(p.ID(i)), 36) }
	account := c.Account(p, "k")
	interval := p.Limit(2).Window.Microseconds()/10 + 1
	s.do("HSET", account, ".t", fmt.Sprint(now), ".n", "9", ".e", fmt.Sprint(now/1000+400*24*3600*us),
		field(p, 0), window(p, 0, 4, 0), field(p, 1), window(p, 1, 6, 0),
		field(p, 2), fmt.Sprint(now+5*interval), field(p, 3), "7",
		field(other, 0), window(other, 0, 2, 0))
	s.do("PEXPIREAT", account, fmt.Sprint(now/1000+400*24*3600*us))
	until := fmt.Sprint(now + time.Hour.Microseconds())
	s.do("ZADD", account+":t:"+field(p, 3), until, until+":7")
	call := exact.Call{Key: "k", Cost: 1, Policy: p}
	v := exactkit.Peek(t, c, call)
	for i, left := range []int64{6, 4, 5, 3} {
		require.Equal(t, left, v.Limits[i].Remaining, "limit %d", i)
	}
	require.Equal(t, "+hash", s.do("TYPE", account), "one that only peeks changes nothing")
	for n := range 3 {
		v = exactkit.Take(t, c, call)
		require.True(t, v.Admitted)
		require.Equal(t, strconv.FormatInt(int64(10+n), 36), v.Receipt.Serial, "no serial is given twice")
		require.Equal(t, "+string", s.do("TYPE", account))
	}
	v = exactkit.Take(t, c, call)
	require.False(t, v.Admitted, "the log is full")
	require.Contains(t, s.do("HMGET", account, ".t"), "WRONGTYPE", "an instance of before does not count from zero")
	for range 3 {
		v = exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: other})
	}
	require.False(t, v.Admitted, "what another policy had counted")
	require.EqualValues(t, 0, v.Limits[0].Remaining)
	require.Equal(t, "1", s.eval(`return redis.call('TTL', ARGV[1]) > 300 * 86400 and '1' or '0'`, account))
}

// Policies of one name take turns on one account, and each keeps what it has counted. Of very
// many, those that were charged long ago are forgotten.
func TestPoliciesOfOneNameShareAnAccount(t *testing.T) {
	s, c := opened(t)
	var policies []*exact.Policy
	for n := range 40 {
		limit := exactkit.Yearly(100)
		limit.Name = fmt.Sprint("n", n)
		if n%2 == 1 {
			limit = storeless.Limit{Name: limit.Name, Algorithm: storeless.TokenBucket, Quota: 100, Window: 366 * 24 * time.Hour}
		}
		policies = append(policies, exactkit.Compile(t, limit))
	}
	take := func(p *exact.Policy) int64 {
		return exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p}).Limits[0].Remaining
	}
	for turn := range 3 {
		for n, p := range policies[:20] {
			require.EqualValues(t, 99-turn, take(p), "turn %d of %d", turn, n)
		}
	}
	both := exactkit.Compile(t, policies[3].Limit(0), exactkit.Yearly(100), policies[4].Limit(0))
	v := exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: both})
	for i, left := range []int64{96, 99, 96} {
		require.Equal(t, left, v.Limits[i].Remaining)
	}
	for _, p := range policies {
		take(p)
	}
	require.LessOrEqual(t, s.size(c.Account(both, "k")), 27+33*17)
	require.EqualValues(t, 98, take(policies[39]), "the last are kept")
	require.EqualValues(t, 99, take(policies[0]), "of the first another charge begins anew")
}

// A trail that has outlived its account counts nothing, also after a call that only wrote what
// has ended of another trail, or gave something back.
func TestTrailsThatOutliveAnAccount(t *testing.T) {
	b := newBoth(t)
	short := storeless.Limit{Name: "short", Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Minute}
	long := storeless.Limit{Name: "long", Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Hour}
	both := exactkit.Compile(t, short, long)
	take := func(cost int64, p *exact.Policy) exact.Verdict {
		return exactkit.Take(t, b.redis, exact.Call{Key: "k", Cost: cost, Policy: p})
	}
	trail := b.redis.Account(both, "k") + ":t:" + strconv.FormatUint(uint64(both.ID(1)), 36)
	until := strconv.FormatInt(b.clock.Now().Add(time.Hour).UnixMicro(), 10)
	b.do("ZADD", trail, until, until+":4")
	require.True(t, take(5, exactkit.Compile(t, short)).Admitted)
	b.clock.Advance(2 * time.Minute)
	require.False(t, take(6, both).Admitted, "it writes that the short one is empty")
	require.True(t, take(1, both).Admitted)
	require.Equal(t, ":1", b.do("ZCARD", trail), "what was there is gone")
	require.True(t, take(4, both).Admitted)
	require.False(t, take(1, both).Admitted)
}

// A server that takes no writes has written nothing of a call that it refuses.
func TestServerWithoutMemoryWritesNothing(t *testing.T) {
	s, c := opened(t)
	p := exactkit.Compile(t, exactkit.Yearly(1000), storeless.Limit{Algorithm: storeless.SlidingLog, Quota: 1000, Window: time.Hour})
	for n := range 100 {
		exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p, ID: strconv.Itoa(n)})
	}
	all := func() string {
		return s.eval(`local all = {}
			for _, k in ipairs(redis.call('KEYS', '*')) do all[#all + 1] = redis.sha1hex(redis.call('DUMP', k)) end
			table.sort(all)
			return table.concat(all)`)
	}
	before := all()
	s.do("CONFIG", "SET", "maxmemory", "1")
	for n := range 70 {
		_, err := c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p, ID: fmt.Sprint("full", n)})
		require.ErrorIs(t, err, exact.ErrNotCounted)
	}
	s.do("CONFIG", "SET", "maxmemory", "0")
	require.Equal(t, before, all())
	v, err := c.Peek(context.Background(), exact.Call{Key: "k", Cost: 1, Policy: p})
	require.NoError(t, err)
	require.EqualValues(t, 900, v.Limits[0].Remaining)
}

// The numbers of an account that is packed are where its table says: other programs may
// not read them, but a later version must.
func TestAccountIsWhatItsTableSays(t *testing.T) {
	s, c := opened(t)
	p := exactkit.Compile(t, storeless.Limit{Quota: 1000, Window: time.Hour})
	v := exactkit.Take(t, c, exact.Call{Key: "k", Cost: 7, Policy: p})
	account := s.do("GET", c.Account(p, "k"))
	require.Equal(t, "\x04\x00\x00\x00\x00\x00\x00", account[:7])
	at := v.Receipt.At.Unix()
	require.InDelta(t, (at/3600+2)*3600+60+3600, binary.LittleEndian.Uint32([]byte(account[23:])), 1)
	require.Equal(t, p.ID(0), binary.LittleEndian.Uint32([]byte(account[27:])))
	require.Equal(t, byte('w'), account[31])
	require.EqualValues(t, at/3600, binary.LittleEndian.Uint32([]byte(account[32:])))
	require.EqualValues(t, 7, binary.LittleEndian.Uint32([]byte(account[36:])))
	require.Zero(t, binary.LittleEndian.Uint32([]byte(account[40:])))
}
