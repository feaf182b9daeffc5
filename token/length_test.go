package token

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/storeless"
)

// fullest returns the tally whose token is the longest that a decision at now
// can make: every count full, one mark as far ahead as it can be, so that exp
// is, and the others as near as they can be, so that their ages are long.
func fullest(p *storeless.Policy, now time.Time, far int) (t storeless.Tally) {
	us := now.UnixMicro()
	for i := range p.Len() {
		l := p.Limit(i)
		w := l.Window.Microseconds()
		switch {
		case mark(l) && i == far:
			t[i].At = us + empties(l)
		case mark(l):
			t[i].At = us + 1
		default:
			t[i] = storeless.State{At: us / w, Cur: uint32(l.Quota), Prev: uint32(l.Quota)}
			if i == far && (us/w+1)*w-us <= skew(l) {
				t[i].At++
			}
		}
	}
	return t
}

// moments returns times of all kinds: near the ends of windows, and any.
func moments(r *rand.Rand, p *storeless.Policy) []time.Time {
	moments := []time.Time{now}
	for i := range p.Len() {
		w := int64(p.Limit(i).Window / time.Second)
		end := (1_500_000_000 + r.Int64N(1_000_000_000)) / w * w
		moments = append(moments, unix(end), time.UnixMicro(end*1e6-1), unix(end+r.Int64N(w)))
	}
	return moments
}

// TestLongest: no tally within the quotas of a policy and its tiers makes a
// token longer than New reckoned. So a codec that started never falls silent.
func TestLongest(t *testing.T) {
	r := random(7)
	started, closest, n := 0, MaxLen, rounds(250)
	for range n {
		p, err := storeless.Compile("contact", randomLimits(r, 6))
		require.NoError(t, err)
		tier := p.Scale(1 + r.Int64N(100))
		c := &Codec{
			ring: []*key{deriveKey("contact", secret("a"))}, policy: p, fields: fieldsOf(p),
			prefix: `{"aud":"contact","sub":"`, pool: &sync.Pool{New: newScratch},
		}
		longest := c.longest([]*storeless.Policy{tier, p})
		if _, err := New([][]byte{secret("a")}, p, tier); err == nil {
			started++
			require.LessOrEqual(t, longest, MaxLen)
		} else {
			require.Greater(t, longest, MaxLen)
		}

		h := c.Holder(alice)
		for _, at := range moments(r, p) {
			for _, q := range []*storeless.Policy{p, tier} {
				for far := range p.Len() {
					tally := fullest(q, at, far)
					said := c.appendPayload(nil, h.subject[:], &tally)
					length := headerLen + (len(said)*8+5)/6 + 1 + signatureLen
					require.LessOrEqual(t, length, longest, "%+v at %v", describe(q), at.UnixMicro())
					closest = min(closest, longest-length)
					if longest > MaxLen {
						continue
					}
					tok := string(h.Append(nil, &tally))
					require.Len(t, tok, length)
					got, err := h.Verify(tok, at)
					require.NoError(t, err)
					require.Equal(t, tally, got.Tally)
				}
			}
		}
	}
	require.Greater(t, started, n/5)
	require.LessOrEqual(t, closest, 3, "New reckons generously, but not much")
}

// TestLongestAtTheEdge has the two cases in which ages are longer than they seem.
func TestLongestAtTheEdge(t *testing.T) {
	for name, tt := range map[string]struct {
		first, others storeless.Limit
		now           int64
		ends          string
	}{
		// Windows that do not divide each other, when they lie so that every
		// age is one more than the quotient says.
		"begun windows": {
			storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 1, Window: 19 * time.Second},
			storeless.Limit{Algorithm: storeless.FixedWindow, Quota: 9, Window: 6 * time.Second},
			57 + 19*6*10_000_000, `,10,9,9,\d+,10,9,9\]}$`,
		},
		// An interval of half a nanosecond is rounded up to a microsecond; a
		// burst of 2³¹ of them is 36 minutes, and not a second.
		"rounded intervals": {
			storeless.Limit{Algorithm: storeless.TokenBucket, Quota: storeless.MaxQuota, Window: time.Second},
			storeless.Limit{Algorithm: storeless.TokenBucket, Quota: storeless.MaxQuota, Window: time.Second, Burst: 9},
			1_700_000_000, `,2148999999,0,0,\d+,2148999999,0,0\]}$`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.first.Name = "first"
			limits := []storeless.Limit{tt.first}
			for n := 0; len(limits) < 7; n++ { // those whose ids have all of their digits
				tt.others.Name = fmt.Sprint("l", n)
				if compile(t, "p", tt.others).ID(0) >= 10_000_000 {
					limits = append(limits, tt.others)
				}
			}
			p := compile(t, "contact", limits...)
			h := newCodec(t, p, secret("a")).Holder(alice)
			tally := fullest(p, unix(tt.now), 0)
			tok := h.Append(nil, &tally)
			require.Regexp(t, tt.ends, payload(t, string(tok)))
			require.LessOrEqual(t, len(tok), h.codec.longest([]*storeless.Policy{p}))
		})
	}
}

// TestDecisionsFit runs real decisions, by the same policy and by tiers, until
// everything is full: the tokens fit.
func TestDecisionsFit(t *testing.T) {
	r := random(8)
	for range rounds(200) {
		c, p := randomCodec(t, r, secret("a"))
		h, m := c.Holder(alice), storeless.NewMemory(4, p.Len())
		family := storeless.Family{Key: m.Key(alice)}
		at := now
		for range 40 {
			tally, v := storeless.Take(m, p, at, &family, 0)
			cost := v.Least(p.Len())
			if cost > 0 {
				tally, v = storeless.Take(m, p, at, &family, 1+r.Int64N(cost))
				require.True(t, v.Admitted)
			}
			tok := string(h.Append(nil, &tally))
			if p.Expires(tally) != 0 {
				require.NotEmpty(t, tok)
				got, err := h.Verify(tok, at)
				require.NoError(t, err)
				require.Equal(t, tally, p.Merge(at, tally, got.Tally))
				family.Shown = got.Tally
			}
			at = at.Add(time.Duration(r.Int64N(int64(windows[r.IntN(8)] * 1e9))))
		}
	}
}

// TestRealisticPoliciesFit: nobody whose limits are those of a real site meets
// the length limit.
func TestRealisticPoliciesFit(t *testing.T) {
	for name, limits := range map[string][]storeless.Limit{
		"eight limits of an API": {
			{Name: "a-limit-with-a-name-of-forty-eight-letters-00001", Quota: 20, Window: time.Second},
			{Name: "a-limit-with-a-name-of-forty-eight-letters-00002", Quota: 600, Window: time.Minute},
			{Name: "a-limit-with-a-name-of-forty-eight-letters-00003", Quota: 5000, Window: time.Hour},
			{Name: "a-limit-with-a-name-of-forty-eight-letters-00004", Quota: 50_000, Window: 24 * time.Hour},
			{Name: "a-limit-with-a-name-of-forty-eight-letters-00005", Quota: 10, Window: time.Minute, Algorithm: storeless.LeakyBucket},
			{Name: "a-limit-with-a-name-of-forty-eight-letters-00006", Quota: 100, Window: time.Hour, Algorithm: storeless.FixedWindow},
			{Name: "a-limit-with-a-name-of-forty-eight-letters-00007", Quota: 500, Window: 24 * time.Hour, Algorithm: storeless.FixedWindow},
			{Name: "a-limit-with-a-name-of-forty-eight-letters-00008", Quota: 100, Window: time.Minute, Algorithm: storeless.TokenBucket},
		},
		"five limits of a metered API": {
			{Quota: 1_000_000, Window: time.Minute},
			{Quota: 50_000_000, Window: time.Hour},
			{Quota: 1_000_000_000, Window: 24 * time.Hour},
			{Quota: storeless.MaxQuota, Window: 30 * 24 * time.Hour},
			{Name: "spend", Quota: 1_000_000, Window: time.Hour, Burst: 5_000_000, Algorithm: storeless.TokenBucket},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := compile(t, "policy-with-a-name-of-32-letters", limits...)
			c, err := New([][]byte{secret("a")}, p)
			require.NoError(t, err)
			h, tally := c.Holder(alice), fullest(p, now, 0)
			require.NotEmpty(t, h.Append(nil, &tally))
		})
	}
}

// TestTooFull: a tally that does not fit, made under other quotas, is not cut
// short and does not fail; nothing is said, and the memory stands.
func TestTooFull(t *testing.T) {
	limits := huge(8)
	for i := range limits {
		limits[i].Quota = 1
	}
	p := compile(t, "contact", limits...)
	h := newCodec(t, p, secret("a")).Holder(alice)
	tally := fullest(compile(t, "contact", huge(8)...), now, 0)
	require.Equal(t, "before", string(h.Append([]byte("before"), &tally)))
}
