// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

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
