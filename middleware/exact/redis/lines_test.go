// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

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

// Of more places than a line has, the first is forgotten: the account has a bound.
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

// Charges of a wrong clock are never refunded, also when their time has come; bookings are,
// before their time.
func TestRefundsOfAWrongClock(t *testing.T) {
	for name, bookings := range map[string]bool{"charged": false, "booked": true} {
		t.Run(name, func(t *testing.T) {
			b := newBoth(t)
			p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 10, Window: time.Hour, Burst: 5})
			call := exact.Call{Key: "k", Cost: 1, Policy: p}
			if bookings {
				call.Ahead = exact.MaxAhead
			}
			var wrong exact.Receipt
			b.clock.Advance(48 * time.Hour)
			for range 7 {
				if v := b.take(call, false, "by a wrong clock"); v.Admitted {
					wrong = v.Receipt
				}
			}
			b.clock.Advance(-48 * time.Hour)
			require.False(t, b.refund(wrong, "before anything is charged"))
			for range 5 {
				require.True(t, b.take(call, false, "anew").Admitted)
			}
			require.False(t, b.refund(wrong, "of a wrong clock"))
			right := b.take(exact.Call{Key: "k", Cost: 1, Policy: p, Past: true}, false, "past").Receipt
			b.clock.Advance(time.Minute)
			require.True(t, b.refund(right, "after it"))
			b.clock.Advance(48*time.Hour - time.Minute)
			for range 5 {
				require.True(t, b.take(call, false, "when its time has come").Admitted)
			}
			require.False(t, b.refund(wrong, "when its time has come"))
		})
	}
}

// Keys of accounts with bookings expire as others do, also those of IDs; and an ID is known
// to both scripts.
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
		ttl, err := strconv.Atoi(strings.TrimPrefix(s.do("TTL", c.Account(p, "k")+key), ":"))
		require.NoError(t, err)
		require.LessOrEqual(t, ttl, 14, "IDs are kept for a short time")
	}
}

// Serials that were made up give nothing back, and break nothing.
func TestSerialsOfBookingsThatAreMadeUp(t *testing.T) {
	b := newBoth(t)
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 10, Window: time.Second}), Ahead: time.Minute}
	var real exact.Receipt
	for range 5 {
		real = b.take(call, false, "booked").Receipt
	}
	for _, serial := range []string{"", "_", "5_", "5_1", "5_1_0_0", "5_0_0", "5_1_!", "5_1_0 ", "x_1_0", "6_1_0", "0_1_0", "5_zzzzzzzz_0", "-5_1_0"} {
		made := real
		made.Serial = serial
		require.False(t, b.refund(made, serial), "serial %q", serial)
	}
	require.True(t, b.refund(real, "the real one"))
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

// Lines that a clock that was wrong has left are forgotten, also those of other policies.
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
	book("right", 84) // and of which serials nothing comes back
}

// A form is what a version of this package has left on a server after the calls of [plays], and the
// serials of their receipts. testdata/forms.json has that of each version; a new one adds its own, which
// the test prints that finds none.
type form struct {
	Keys    [][]string // SET with a value in hex, HSET or ZADD
	Serials map[string][]string
}

func forms(t testing.TB) (all map[string]form) {
	b, err := os.ReadFile("testdata/forms.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &all))
	return all
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

// plays makes five calls, 7 s apart, of which the third comes back, one that is refused, and ten that
// are booked, of which two come back.
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

// goesOn tells what becomes of what [player.plays] has left.
func (p *player) goesOn() (all, booked []string) {
	tell := func(v exact.Verdict) string {
		said := fmt.Sprint(v.Admitted, v.Replayed, v.Wait)
		for _, l := range v.Limits[:5] {
			said += fmt.Sprint(" ", l.Remaining, l.Reset)
		}
		return said
	}
	call, ahead := calls(p.t)
	dear := call
	dear.Cost = 9
	p.now = begins.Add(30 * time.Second)
	all = append(all, tell(p.take(call)), fmt.Sprint(p.refund(call, 1), p.refund(call, 2), p.refund(call, 1)), tell(p.take(dear)))
	for n := range 3 {
		all = append(all, tell(p.take(call)))
		if p.serials["b"] != nil {
			booked = append(booked, tell(p.take(ahead)), fmt.Sprint(p.refund(ahead, n+4)))
		}
		p.now = p.now.Add(time.Second)
	}
	return all, booked
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

// restore puts a form on the server.
func (p *player) restore(f form) {
	for _, words := range f.Keys {
		if words[0] == "SET" {
			value, err := hex.DecodeString(words[2])
			require.NoError(p.t, err)
			words = []string{"SET", words[1], string(value)}
		}
		p.s.do(words...)
	}
	p.serials = f.Serials
	for n := range 5 {
		p.ats["k"] = append(p.ats["k"], begins.Add(time.Duration(n)*7*time.Second))
	}
	for n := range f.Serials["b"] {
		p.ats["b"] = append(p.ats["b"], begins.Add(time.Duration(28+n)*time.Second))
	}
}

// What each version before has left is counted on with as what this one leaves.
func TestFormsOfBefore(t *testing.T) {
	today := newPlayer(t)
	today.plays()
	left, err := json.Marshal(form{today.dump(), today.serials})
	require.NoError(t, err)
	kept := forms(t)
	now, err := json.Marshal(kept["4"])
	require.NoError(t, err)
	require.JSONEq(t, string(now), string(left), "where the form is another one, this is what testdata/forms.json wants besides")
	wantAll, wantBooked := today.goesOn()
	for name, f := range kept {
		t.Run(name, func(t *testing.T) {
			p := newPlayer(t)
			p.restore(f)
			all, booked := p.goesOn()
			require.Equal(t, wantAll, all)
			if f.Serials["b"] != nil {
				require.Equal(t, wantBooked, booked)
			}
			again, _ := calls(t)
			again.ID = "ID4"
			require.Equal(t, name != "hash", p.take(again).Replayed, "a hash had no IDs")
		})
	}
}
