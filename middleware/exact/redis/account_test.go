// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
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

// Policies of one name take turns on one account, and each keeps what it has counted. If there are
// very many, the ones that were charged long ago are forgotten.
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
	v := kit.Must(c.Peek(context.Background(), exact.Call{Key: "k", Cost: 1, Policy: p}))(t)
	require.EqualValues(t, 900, v.Limits[0].Remaining)
}

// both is a counter on a server and one in memory, by one clock, that must agree in everything.
type both struct {
	*server
	clock  *exacttest.Clock
	redis  timed
	memory exact.Counter
}

func newBoth(t *testing.T) *both {
	s, clock := startServer(t), ahead()
	return &both{s, clock, timed{s.byKey(redis.Config{}), s, clock}, memory.New(0, clock.Now)}
}

// take takes a call, or peeks, and returns what both say of it, receipts and places on lines
// included.
func (b *both) take(call exact.Call, peek bool, of string) exact.Verdict {
	b.t.Helper()
	ask := exact.Counter.Take
	if peek {
		ask = exact.Counter.Peek
	}
	got, err := ask(b.redis, b.t.Context(), call)
	require.NoError(b.t, err, "%s: %+v", of, call)
	want, err := ask(b.memory, b.t.Context(), call)
	require.NoError(b.t, err, "%s: %+v", of, call)
	require.Equal(b.t, want.Receipt.At.UnixMicro(), got.Receipt.At.UnixMicro(), of)
	got.Receipt.At = want.Receipt.At
	require.Equal(b.t, want, got, of)
	return got
}

func (b *both) refund(r exact.Receipt, of string) bool {
	b.t.Helper()
	want, got := b.memory.Refund(b.t.Context(), r), b.redis.Refund(b.t.Context(), r)
	require.Equal(b.t, want, got, "%s: %+v", of, r)
	return want == nil
}

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
		v := kit.Must(c.Engine().TakeAll(t.Context(), calls))(t)
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
		return kit.Must(strconv.Atoi(s.eval(`local n = 0 for _, k in ipairs(redis.call('KEYS', '*:s:*')) do n = n + redis.call('HLEN', k) end return tostring(n)`)))(t)
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

// What comes back is a kilobyte of the account at most, and no key of its own; and it is what
// package exact makes of it, whatever comes back, and when.
func TestWhatComesBackTakesAKilobyte(t *testing.T) {
	b := newBoth(t)
	s, c, clock := b.server, b.redis, b.clock
	s.at(clock.Now())
	p := exactkit.PerYear(t, storeless.MaxQuota)
	without := 27 + 17
	batches := 80
	if kit.Brief() {
		batches = 40
	}
	for name, comes := range map[string]func(rng *rand.Rand, n int) (refunds, reach int){
		"all":          func(*rand.Rand, int) (int, int) { return 251, 0 },
		"some":         func(*rand.Rand, int) (int, int) { return 10, 600 },
		"of long ago":  func(*rand.Rand, int) (int, int) { return 20, 9000 },
		"many, at end": func(_ *rand.Rand, n int) (int, int) { return max(0, n-batches+4) * 700, 9000 },
	} {
		rng := rand.New(rand.NewPCG(1, 4))
		memory := memory.New(0, clock.Now)
		call := exact.Call{Key: name, Cost: 2, Policy: p}
		var ours, theirs []exact.Receipt
		for batch := range batches {
			calls := make([]exact.Call, 251) // at any place of a byte
			for i := range calls {
				calls[i] = call
				ours = append(ours, exactkit.Take(t, memory, call).Receipt)
			}
			verdicts := kit.Must(c.Engine().TakeAll(t.Context(), calls))(t)
			for _, v := range verdicts {
				theirs = append(theirs, v.Receipt)
			}
			refunds, reach := comes(rng, batch)
			for n := range refunds {
				i := len(ours) - 1 - n
				if reach > 0 && n < refunds-1 { // and the newest
					i = max(0, len(ours)-1-rng.IntN(reach))
				}
				require.Equal(t, memory.Refund(t.Context(), ours[i]), c.Counter.Refund(t.Context(), theirs[i]), "%s, batch %d, refund %d", name, batch, n)
			}
			size := s.size(c.Account(p, name))
			require.LessOrEqual(t, size, without+1024, name)
			if name == "all" {
				require.Equal(t, without+10, size)
			}
		}
		require.Equal(t, exactkit.Peek(t, memory, call), exactkit.Peek(t, c, call), name)
		require.Equal(t, ":1", s.do("DEL", c.Account(p, name)))
		require.Equal(t, ":1", s.do("DBSIZE"), "the clock")
	}
}

// A server whose clock was a year ahead for one call: the account begins anew, which is
// told once, and its keys end when they would have without.
func TestServerClockThatWasAhead(t *testing.T) {
	s := startServer(t)
	log := new(logged)
	c := s.byKey(redis.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	now := time.Now().Truncate(time.Second)
	at := func(ahead time.Duration) { s.at(now.Add(ahead)) }
	p := exactkit.Compile(t, storeless.Limit{Name: "log", Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Minute},
		storeless.Limit{Name: "minute", Algorithm: storeless.FixedWindow, Quota: 5, Window: time.Minute})
	takeOf := func(p *exact.Policy) exact.Verdict {
		return exactkit.Take(t, c, exact.Call{Key: "k", Cost: 1, Policy: p})
	}
	take := func() exact.Verdict { return takeOf(p) }
	bucket := exactkit.Compile(t, storeless.Limit{Name: "other", Algorithm: storeless.TokenBucket, Quota: 5, Window: time.Minute})
	at(365 * 24 * time.Hour)
	for range 5 {
		require.True(t, take().Admitted)
	}
	require.True(t, takeOf(bucket).Admitted, "of the same name")
	require.Zero(t, log.count("clock"))
	at(0)
	for range 5 {
		require.True(t, take().Admitted)
	}
	v := take()
	require.False(t, v.Admitted)
	require.LessOrEqual(t, v.Wait, time.Minute)
	require.Equal(t, 1, log.count("the clock of the redis server was wrong"))
	require.Equal(t, 1, log.count("ahead=\"365 days\""))
	s.expires(200)
	require.True(t, takeOf(bucket).Admitted, "what it owed is forgotten too")
	require.Equal(t, ":3", s.do("DBSIZE"), "the clock, the account and its log")
}

// An account is longer while calls are booked, and as short as ever when none is any more:
// because all was given back, or because the moment of the last has come.
func TestAccountIsShortAgainAfterBookings(t *testing.T) {
	b := newBoth(t)
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 10, Window: time.Second})
	account := b.redis.Account(p, "k")
	size := func() int { return b.size(account) }
	plain := exact.Call{Key: "k", Cost: 1, Policy: p}
	ahead := plain
	ahead.Ahead = time.Minute
	require.True(t, b.take(ahead, false, "the first").Admitted)
	require.Equal(t, 40, size(), "for now: nothing is booked")
	require.Equal(t, "embstr", b.do("OBJECT", "ENCODING", account))
	var booked []exact.Verdict
	for range 3 {
		booked = append(booked, b.take(ahead, false, "ahead"))
	}
	require.Equal(t, 74, size())
	const back = 11 // bytes of what came back
	require.True(t, b.refund(booked[1].Receipt, "a hole"))
	require.Equal(t, 74+16+back, size())
	require.False(t, b.take(plain, false, "behind what is booked").Admitted)
	require.Equal(t, 74+16+back, size())
	for _, i := range []int{0, 2} {
		require.True(t, b.refund(booked[i].Receipt, "all"))
	}
	require.Equal(t, 40+back, size())

	for range 3 {
		b.take(ahead, false, "ahead")
	}
	b.clock.Advance(time.Second)
	require.True(t, b.take(plain, false, "when they are over").Admitted)
	require.Equal(t, 40+back, size())
}

// If there are more places than a line has, the first is forgotten: the account has a bound.
func TestLinesHaveSoManyHoles(t *testing.T) {
	b := newBoth(t)
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 10, Window: time.Second})
	call := exact.Call{Key: "k", Cost: 1, Policy: p, Ahead: exact.MaxAhead}
	var booked []exact.Receipt
	for range 2 * 70 {
		booked = append(booked, b.take(call, false, "booked").Receipt)
	}
	for i := 1; i < len(booked); i += 2 {
		require.True(t, b.refund(booked[i-1], "every other"))
	}
	require.Equal(t, 40+20+14+64*16+28, b.size(b.redis.Account(p, "k")), "and what came back")
	for i := range 66 {
		b.take(call, false, fmt.Sprint("into hole ", i))
	}
}

// Keys of accounts with bookings expire as others do, also the keys of IDs; and an ID is known to
// both scripts.
func TestEveryKeyOfBookingsExpires(t *testing.T) {
	s, c := opened(t)
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 60, Window: time.Minute})
	for i := range 50 {
		call := exact.Call{Key: "k", Cost: 1, Policy: p, ID: strconv.Itoa(i), Ahead: exact.MaxAhead}
		v := exactkit.Take(t, c, call)
		require.True(t, v.Admitted)
		again := exactkit.Take(t, c, call)
		require.True(t, again.Replayed)
		require.Equal(t, v.Receipt, again.Receipt)
		call.Ahead = 0
		require.Equal(t, v.Receipt, exactkit.Take(t, c, call).Receipt, "by the other script")
		if i%3 == 0 {
			require.NoError(t, c.Refund(t.Context(), v.Receipt))
			require.ErrorIs(t, c.Refund(t.Context(), v.Receipt), exact.ErrNoRefund)
		}
	}
	s.expires(0)
	for _, key := range []string{":s:0", ":s:1"} {
		ttl := kit.Must(strconv.Atoi(strings.TrimPrefix(s.do("TTL", c.Account(p, "k")+key), ":")))(t)
		require.LessOrEqual(t, ttl, 14, "IDs are kept for a short time")
	}
}

// A serial that tells of a place before its line gives back what is on the line alone.
func TestPlacesBeforeTheirLine(t *testing.T) {
	b := newBoth(t)
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 10, Window: time.Second, Burst: 4})
	call := exact.Call{Key: "k", Cost: 1, Policy: p, Ahead: time.Minute}
	var made exact.Receipt
	for range 6 {
		made = b.take(call, false, "booked").Receipt
	}
	number, _, _ := strings.Cut(made.Serial, "_")
	made.Serial = number + "_1_-zzzz"
	require.True(t, b.refund(made, "made up"))
	for i := range 8 {
		b.take(call, false, fmt.Sprint("behind it ", i))
	}
}

// Lines that a wrong clock has left are forgotten, also the lines of other policies.
func TestLinesOfAWrongClock(t *testing.T) {
	b := newBoth(t)
	book := func(name string, size int) {
		p := exactkit.Compile(t, storeless.Limit{Name: name, Algorithm: storeless.LeakyBucket, Quota: 10, Window: time.Second})
		c := b.redis
		b.at(b.clock.Now())
		call := exact.Call{Key: "k", Cost: 1, Policy: p, Ahead: time.Minute}
		both, err := c.Engine().TakeAll(t.Context(), []exact.Call{call, call}) // as one step
		require.NoError(t, err)
		require.Equal(t, 100*time.Millisecond, both[1].Wait)
		require.Equal(t, size, b.size(c.Account(p, "k")), name)
	}
	b.clock.Advance(48 * time.Hour)
	book("wrong", 74)
	b.clock.Advance(-48 * time.Hour)
	book("right", 84) // and the serials that do not come back
}

// A form holds what this package has left on a server after the calls of [plays], and the serials of their receipts.
type form struct {
	Keys    [][]string // SET with a value in hex, HSET or ZADD
	Serials map[string][]string
}

// begins is when the calls begin: a server would forget at once what has expired.
var begins = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// A player makes calls by a clock on a server.
type player struct {
	t       *testing.T
	s       *server
	c       *redis.Counter
	now     time.Time
	serials map[string][]string
	ats     map[string][]time.Time
}

func newPlayer(t *testing.T) *player {
	p := &player{t: t, s: startServer(t), now: begins, serials: map[string][]string{}, ats: map[string][]time.Time{}}
	p.c = p.s.byKey(redis.Config{})
	return p
}

func (p *player) take(call exact.Call) exact.Verdict {
	p.s.at(p.now)
	v := exactkit.Take(p.t, p.c, call)
	if v.Admitted && !v.Replayed {
		p.serials[call.Key], p.ats[call.Key] = append(p.serials[call.Key], v.Receipt.Serial), append(p.ats[call.Key], v.Receipt.At)
	}
	return v
}

// refund gives the nth charge of a call back.
func (p *player) refund(call exact.Call, n int) error {
	return p.c.Refund(p.t.Context(), exact.Receipt{Key: call.Key, Policy: call.Policy, Cost: call.Cost, Serial: p.serials[call.Key][n], At: p.ats[call.Key][n]})
}

// calls are of a policy of every kind of limit, and of one that can be booked.
func calls(t testing.TB) (all, booked exact.Call) {
	year := 366 * 24 * time.Hour
	return exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, exactkit.Yearly(10),
			storeless.Limit{Name: "sliding", Quota: 20, Window: year},
			storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 30, Window: year},
			storeless.Limit{Name: "log", Algorithm: storeless.SlidingLog, Quota: 40, Window: time.Hour},
			storeless.Limit{Name: "day", Algorithm: storeless.RollingDay, Quota: 50, Window: 24 * time.Hour})},
		exact.Call{Key: "b", Cost: 1, Ahead: exact.MaxAhead, Policy: exactkit.Compile(t,
			storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 60, Window: time.Minute, Burst: 2},
			storeless.Limit{Name: "slow", Algorithm: storeless.LeakyBucket, Quota: 3600, Window: time.Hour})}
}

// plays makes five calls, 7 s apart, and gives back the third; one that is refused; and ten that are
// booked, and gives back two of them.
func (p *player) plays() {
	all, booked := calls(p.t)
	for n := range 5 {
		p.now = begins.Add(time.Duration(n) * 7 * time.Second)
		asks := all
		asks.ID = fmt.Sprint("ID", n)
		require.True(p.t, p.take(asks).Admitted)
	}
	require.NoError(p.t, p.refund(all, 2))
	all.Cost, all.ID = 9, "refused"
	require.False(p.t, p.take(all).Admitted)
	for range 10 {
		require.True(p.t, p.take(booked).Admitted)
	}
	require.NoError(p.t, p.refund(booked, 4))
	require.NoError(p.t, p.refund(booked, 6))
}

// dump returns the keys of the server.
func (p *player) dump() (keys [][]string) {
	said := p.s.do("EVAL", `local all = {}
		local names = redis.call('KEYS', 'tallystick:*')
		table.sort(names)
		for i, key in ipairs(names) do
			local words, kind = {}, redis.call('TYPE', key).ok
			if kind == 'string' then
				words = { 'SET', key, (string.gsub(redis.call('GET', key), '.', function(c) return string.format('%02x', string.byte(c)) end)) }
			elseif kind == 'hash' then
				words = redis.call('HGETALL', key)
				table.insert(words, 1, key)
				table.insert(words, 1, 'HSET')
			else
				words = { 'ZADD', key }
				local members = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
				for m = 1, #members, 2 do
					words[#words + 1], words[#words + 2] = members[m + 1], members[m]
				end
			end
			all[i] = words
		end
		return cjson.encode(all)`, "0")
	require.NoError(p.t, json.Unmarshal([]byte(said), &keys))
	return keys
}

// What is stored is read by the versions that come: where the form of an account changes, its version rises.
func TestFormIsAsItWas(t *testing.T) {
	p := newPlayer(t)
	p.plays()
	left := kit.Must(json.Marshal(form{p.dump(), p.serials}))(t)
	kept := kit.Must(os.ReadFile("testdata/form.json"))(t)
	require.JSONEq(t, string(kept), string(left))
}
