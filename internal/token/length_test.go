// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// fullest returns the tally whose token is the longest that a decision at now
// can make: every count full, one mark as far ahead as it can be, so that exp
// is, and the others as near as they can be, so that their ages are long.
func fullest(p *limiter.Policy, now time.Time, far int) (t limiter.Tally) {
	us := now.UnixMicro()
	for i := range p.Len() {
		l := p.Limit(i)
		w := l.Window.Microseconds()
		switch {
		case mark(l) && i == far:
			t[i].At, t[i].Cur = us+empties(l)+overdraft(l), uint32((overdraft(l)+999_999)/1_000_000)
		case mark(l):
			t[i].At = us + 1
		default:
			t[i] = limiter.State{At: us / w, Cur: uint32(l.Quota), Prev: uint32(l.Quota)}
			if i == far && (us/w+1)*w-us <= skew(l) {
				t[i].At++
			}
		}
	}
	return t
}

// ownFullest returns counts whose token, of an own tally, is the longest that a
// decision at now can make. Late in the tally's life ages are long below zero:
// marks of full buckets, made by a clock that is ahead, and windows likewise.
func ownFullest(p *limiter.Policy, now time.Time, late bool) limiter.Tally {
	t, us := fullest(p, now, -1), now.UnixMicro()
	for i := range p.Len() {
		switch l := p.Limit(i); {
		case !late:
		case mark(l):
			t[i].At, t[i].Cur = us+skew(l)+empties(l)+overdraft(l), uint32((overdraft(l)+999_999)/1_000_000)
		default:
			t[i].At = (us + skew(l)) / l.Window.Microseconds()
		}
	}
	return t
}

// moments returns times of all kinds: near the ends of windows, and any.
func moments(r *rand.Rand, p *limiter.Policy) []time.Time {
	moments := []time.Time{now}
	for i := range p.Len() {
		w := int64(p.Limit(i).Window / time.Second)
		end := (1_500_000_000 + r.Int64N(1_000_000_000)) / w * w
		moments = append(moments, unix(end), time.UnixMicro(end*1e6-1), unix(end-2), unix(end+r.Int64N(w)))
	}
	return moments
}

// TestLongest: no counts within the quotas of a policy and its tiers make a
// token longer than New has reserved, of a shared tally or at any moment of an own
// one's life. So a codec that started never falls silent.
func TestLongest(t *testing.T) {
	r := random(7)
	started, closest, n := 0, MaxLen, rounds(250)
	for i := range n {
		name := []string{"contact", "contact1", "contact12"}[i%3] // each leaves another rest of a group
		p := kit.Must(limiter.Compile(name, randomLimits(r, 6)))(t)
		tier := p.Scale(1 + r.Int64N(100))
		c := &Codec{
			ring:   []*key{deriveKey(name, secret("a"))},
			format: newFormat(p),
		}
		longest := c.format.longest([]*limiter.Policy{tier, p})
		if _, err := New([][]byte{secret("a")}, p, tier); err == nil {
			started++
			require.LessOrEqual(t, longest, MaxLen)
		} else {
			require.Greater(t, longest, MaxLen)
		}

		h := c.Holder(alice)
		check := func(q *limiter.Policy, at time.Time, own Own, tally limiter.Tally) {
			said := kit.Must(json.Marshal(c.format.claims(subjectOf(&h), own, expires(q, own, &tally), &tally)))(t)
			length := payloadAt + (len(said)*8+5)/6 + 1 + signatureLen
			if length > longest {
				require.Failf(t, "too long", "%d, not %d: %+v at %v, %+v", length, longest, describe(q), at.UnixMicro(), own)
			}
			closest = min(closest, longest-length)
			if longest > MaxLen {
				return
			}
			tok := string(give(&h, own, &tally))
			require.Len(t, tok, length)
			got := kit.Must(h.Verify(at, tok))(t)
			require.Equal(t, Token{expires(q, own, &tally), tally, own}, got)
		}
		life := int64(ownLife(p) / time.Second)
		for _, at := range moments(r, p) {
			for _, q := range []*limiter.Policy{p, tier} {
				for far := range p.Len() {
					check(q, at, Own{}, fullest(q, at, far))
				}
				// The first is of a clock that is behind the one that sold the tally.
				for _, left := range []int64{life + lag, life, 1 + r.Int64N(life), 1 + r.Int64N(10), 1} {
					own := Own{ID: [6]byte{1}, Expires: at.Unix() + left, Bound: true}
					check(q, at, own, ownFullest(q, at, false))
					check(q, at, own, ownFullest(q, at, true))
				}
			}
		}
	}
	require.Greater(t, started, n/5)
	require.LessOrEqual(t, closest, 3, "New reckons generously, but not much")
}

// TestLongestAtTheEdge has the cases in which ages are longer than they seem.
func TestLongestAtTheEdge(t *testing.T) {
	for name, tt := range map[string]struct {
		first, others limiter.Limit
		now           int64
		ends          string
		left          int64 // how long an own tally has to live; 0 is a shared one
	}{
		// Buckets that look so far ahead that a shared tally's ages are longer
		// by more than an own one's second name: two windows and what they owe,
		"two windows": {
			limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 1, Window: 640 * time.Second, Burst: 7811},
			limiter.Limit{Algorithm: limiter.FixedWindow, Quota: 9, Window: time.Second},
			1_700_000_000, `(,\d+,10000000,9,9){7}\]}$`, 0,
		},
		// and windows that do not divide that, when they lie so that every age
		// is one more than the quotient says.
		"begun windows": {
			limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 6, Window: 6 * time.Second, Burst: 4_999_987},
			limiter.Limit{Algorithm: limiter.FixedWindow, Quota: 9, Window: 10 * time.Second},
			30*50_000_000 + 28, `(,\d+,1000000,9,9){7}\]}$`, 0,
		},
		// A bucket that owes for longer than the tally has to live:
		// as many digits as the tally's whole life, and a sign.
		"own, marks after its end": {
			limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 1, Window: time.Second, Burst: 3000},
			limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 1, Window: time.Second, Burst: 3000},
			1_700_000_000, `(,\d+,-6000100000,3001,0){7}\]}$`, 1,
		},
		// An interval of half a nanosecond is rounded up to a microsecond; a
		// burst of 2³¹ of them is 36 minutes, and not a second; it may owe two and a second.
		"own, rounded intervals": {
			limiter.Limit{Algorithm: limiter.TokenBucket, Quota: limiter.MaxQuota, Window: time.Second},
			limiter.Limit{Algorithm: limiter.TokenBucket, Quota: limiter.MaxQuota, Window: time.Second},
			1_700_000_000, `(,\d+,-4295067294,2149,0){7}\]}$`, 1,
		},
		// A window that an instance whose clock is ahead has begun.
		"own, a window after its end": {
			limiter.Limit{Algorithm: limiter.FixedWindow, Quota: 9, Window: time.Hour},
			limiter.Limit{Algorithm: limiter.FixedWindow, Quota: 9, Window: time.Hour},
			3600*500_000 - 3, `(,\d+,-1,9,9){7}\]}$`, 1,
		},
		// Windows that do not divide the tally's life.
		"own, begun windows": {
			limiter.Limit{Algorithm: limiter.FixedWindow, Quota: 9, Window: 5000 * time.Second},
			limiter.Limit{Algorithm: limiter.FixedWindow, Quota: 9, Window: 101 * time.Second},
			101*15_000_000 + 100, `(,\d+,100,9,9){7}\]}$`, 10_000,
		},
		// An instance whose clock is behind the one that sold the tally.
		"own, before its life": {
			limiter.Limit{Algorithm: limiter.FixedWindow, Quota: 9, Window: 4998 * time.Second},
			limiter.Limit{Algorithm: limiter.TokenBucket, Quota: 1, Window: time.Second, Burst: 1},
			1_700_000_000, `(,\d+,10000999999,0,0){7}\]}$`, 2*4998 + lag,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var limits []limiter.Limit
			for n, l := 0, tt.first; len(limits) < limiter.MaxLimits; n++ {
				l.Name = fmt.Sprint("l", n)
				if compile(t, "p", l).ID(0) >= 10_000_000 { // an id with all of its digits
					limits, l = append(limits, l), tt.others
				}
			}
			p := compile(t, "contact", limits...)
			h := newCodec(t, p, secret("a")).Holder(alice)
			tally, own := fullest(p, unix(tt.now), 0), Own{}
			if tt.left > 0 {
				tally, own = ownFullest(p, unix(tt.now), tt.left == 1), Own{Expires: tt.now + tt.left, Bound: true}
			}
			tok := give(&h, own, &tally)
			require.Regexp(t, tt.ends, payload(t, string(tok)))
			require.LessOrEqual(t, len(tok), h.codec.format.longest([]*limiter.Policy{p}))
		})
	}
}

// TestTooFull: a tally that does not fit, made under other quotas, is not cut
// short and does not fail; nothing is said, and the memory stands.
func TestTooFull(t *testing.T) {
	limits := huge()
	for i := range limits {
		limits[i].Quota = 1
	}
	p := compile(t, "contact", limits...)
	h := newCodec(t, p, secret("a")).Holder(alice)
	tally := fullest(compile(t, "contact", huge()...), now, 0)
	require.Equal(t, "before", string(h.Append([]byte("before"), &tally)))
	require.Equal(t, "before", string(h.AppendOwn([]byte("before"), bought(p, "tally", false), &tally)))
}

// TestBlocks: a MAC costs what SHA-256 has blocks to hash: those behind the fixed start of
// the token, and one of the outer hash. For one limit and for two, which is what most sites
// have, two are left of the inner hash, busy or not.
func TestBlocks(t *testing.T) {
	two := contactLimits[:2]
	for name, tt := range map[string]struct {
		limits []limiter.Limit
		counts []uint32 // the current one and the one before, of each limit
		own    Own
		length int
		blocks int
	}{
		"one limit, first":          {two[:1], []uint32{1, 0}, Own{}, 196, 2},
		"one limit, busy":           {two[:1], []uint32{4128, 4311}, Own{}, 204, 2},
		"two limits, first":         {two, []uint32{1, 0, 1, 0}, Own{}, 219, 2},
		"two limits, busy":          {two, []uint32{4, 5, 41, 17}, Own{}, 221, 2},
		"two limits, own":           {two, []uint32{1, 0, 1, 0}, Own{Expires: 1_700_172_800}, 219, 2},
		"two limits, own and bound": {two, []uint32{1, 0, 1, 0}, Own{Expires: 1_700_172_800, Bound: true}, 241, 3},
	} {
		t.Run(name, func(t *testing.T) {
			p := compile(t, "contact", tt.limits...)
			h := newCodec(t, p, secret("a")).Holder(alice)
			tally := used(t, p, 1)
			for i := range tt.limits {
				tally[i].Cur, tally[i].Prev = tt.counts[2*i], tt.counts[2*i+1]
			}
			tok := give(&h, tt.own, &tally)
			require.Len(t, tok, tt.length)
			hashed := len(tok) - 1 - signatureLen - fixedLen
			require.Equal(t, tt.blocks, (hashed+1+8+sha256.BlockSize-1)/sha256.BlockSize, "%d characters, a bit and the length", hashed)
		})
	}
}

// TestLongestOfPasses: a pass may leak more slowly than any quota of its window can say, and its
// debt is larger by as much.
func TestLongestOfPasses(t *testing.T) {
	limits := []limiter.Limit{{Quota: 1, Window: time.Hour}}
	for n := 0; len(limits) < limiter.MaxLimits; n++ {
		l := limiter.Limit{Name: fmt.Sprint("l", n), Algorithm: limiter.LeakyBucket, Quota: 1, Window: 61 * time.Minute}
		if compile(t, "p", l).ID(0) >= 10_000_000 { // an id with all of its digits
			limits = append(limits, l)
		}
	}
	p := compile(t, "contact", limits...)
	pass, fm := p.Pass(time.Hour), newFormat(p)
	tally := limiter.NewMemory(1, p.Len()).Record(now, pass, &limiter.Candidate{}, 8)
	own := Own{ID: [6]byte{1}, Expires: now.Unix() + 1, Bound: true}
	said := kit.Must(json.Marshal(fm.claims([]byte("AAAAAAAA"), own, own.Expires, &tally)))(t)
	require.Contains(t, string(said), ",-18059000002,10861,0]", "two intervals of two hours, and a window")
	length := payloadAt + (len(said)*8+5)/6 + 1 + signatureLen
	require.LessOrEqual(t, length, fm.longest([]*limiter.Policy{p, pass}))
}
