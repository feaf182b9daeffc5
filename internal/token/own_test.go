// SPDX-License-Identifier: Apache-2.0

package token

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
)

// TestOwnRoundTrip: what was appended is what is verified, by whom it may be,
// until the tally ends and not a second longer, however little it has counted.
func TestOwnRoundTrip(t *testing.T) {
	c, h := contact(t)
	stranger := c.Holder([]byte("stranger"))
	for _, tally := range []limiter.Tally{{}, used(t, c.format.policy, 1), used(t, c.format.policy, 5)} {
		for _, own := range []Own{
			bought(c.format.policy, "tally", false), bought(c.format.policy, "tally", true),
			{Expires: maxExpires}, {Expires: now.Unix() + 1, Bound: true}, // before its windows have passed
		} {
			tok := string(h.AppendOwn(nil, own, &tally))
			require.Equal(t, "prefix "+tok, string(h.AppendOwn([]byte("prefix "), own, &tally)))
			want := Token{own.Expires, tally, own}
			got, err := h.Verify(now, tok)
			require.NoError(t, err)
			require.Equal(t, want, got)

			_, err = h.Verify(unix(own.Expires).Add(-1), tok)
			require.NoError(t, err)
			_, err = h.Verify(unix(own.Expires), tok)
			require.Equal(t, ErrExpired, err)

			got, err = stranger.Verify(now, tok)
			if !own.Bound {
				require.NoError(t, err)
				require.Equal(t, want, got)
				require.Equal(t, tok, string(stranger.AppendOwn(nil, own, &tally)), "nothing of the holder is in it")
				continue
			}
			require.Equal(t, ErrHolder, err)
			require.Zero(t, got)
			_, err = stranger.Verify(unix(own.Expires), tok)
			require.Equal(t, ErrExpired, err, "before the holder")
		}
	}
}

// TestRedeemIsDeterministic: every byte of a tally's first token derives from
// its challenge, whichever instance redeems it and whatever happened before.
func TestRedeemIsDeterministic(t *testing.T) {
	p := compile(t, "contact", contactLimits...)
	r := random(12)
	for range 50 {
		own := randomOwn(r, p)
		if own.IsZero() {
			continue
		}
		first := newCodec(t, p, secret("a"), secret("b")).Holder(alice)
		want := string(first.AppendOwn(nil, own, &limiter.Tally{}))

		tiers, err := New([][]byte{secret("a")}, compile(t, "contact", contactLimits...), p.Scale(3))
		require.NoError(t, err)
		second := tiers.Holder(alice)
		tally := used(t, p, 5)
		second.AppendOwn(nil, own, &tally)
		second.Append(nil, &tally)
		require.Equal(t, want, string(second.AppendOwn(nil, own, &limiter.Tally{})))
	}
}

// TestOwnForm: the tokens are what docs/wire.md says they are.
func TestOwnForm(t *testing.T) {
	c, h := contact(t)
	own := Own{ID: [6]byte{0xfb, 0xff, 0, 1, 2, 3}, Expires: 1_700_172_800}
	bound := own
	bound.Bound = true
	tally := used(t, c.format.policy, 1)
	list := fmt.Sprintf("%d,2880,1,0,%d,2,1,0,%d,172740000000,0,0", c.format.policy.ID(0), c.format.policy.ID(1), c.format.policy.ID(2))
	for _, tt := range []struct {
		own         Own
		tally       limiter.Tally
		names, list string
	}{
		{own, limiter.Tally{}, `"fam":"-_8AAQID"`, ""},
		{own, tally, `"fam":"-_8AAQID"`, list},
		{bound, limiter.Tally{}, fmt.Sprintf(`"sub":"%s","fam":"-_8AAQID"`, subjectOf(&h)), ""},
		{bound, tally, fmt.Sprintf(`"sub":"%s","fam":"-_8AAQID"`, subjectOf(&h)), list},
	} {
		require.Equal(t, fmt.Sprintf(`{"aud":"contact",%s,"exp":1700172800,"t":[%s]}`, tt.names, tt.list),
			payload(t, string(h.AppendOwn(nil, tt.own, &tt.tally))))
	}
}

// TestNames changes each byte of a signed payload up to exp, for policies whose
// names end at each place of a group of base64. A subject may become somebody
// else's, a tally another; all other bytes are fixed.
func TestNames(t *testing.T) {
	for _, name := range []string{"contact", "contact1", "contact12"} {
		p := compile(t, name, contactLimits...)
		c := newCodec(t, p, secret("a"))
		h := c.Holder(alice)
		tally := used(t, p, 1)
		for kind, own := range kinds(p) {
			said := payload(t, string(give(&h, own, &tally)))
			sub, fam := strings.Index(said, string(subjectOf(&h))), strings.Index(said, `"fam":"`)+len(`"fam":"`)
			for i := range strings.Index(said, `"exp":`) + len(`"exp":`) {
				for _, b := range []byte{said[i] ^ 1, said[i] ^ 0x20, said[i] ^ 0x80, 0, '"'} {
					if b == said[i] {
						continue
					}
					want, changed := ErrMalformed, said[:i]+string([]byte{b})+said[i+1:]
					tok := sign(c.ring[0], changed)
					if tok[:fixedLen] != c.ring[0].fixed {
						want = ErrForeign // in what all tokens of the key begin with
					}
					if sub > 0 && i >= sub && i < sub+subjectLen {
						want = ErrHolder
					}
					got, err := h.Verify(now, tok)
					if own != (Own{}) && i >= fam && i < fam+ownIDLen && err == nil {
						require.NotEqual(t, own.ID, got.Own.ID)
						continue
					}
					require.Equal(t, want, err, "%s %s: %s", name, kind, changed)
				}
			}
			for i := range len(said) { // cut short anywhere, and signed
				_, err := h.Verify(now, sign(c.ring[0], said[:i]))
				require.Equal(t, ErrMalformed, err, "%s %s: %s", name, kind, said[:i])
			}
		}
	}
}

// TestOutOfTime: what Verify would not take, for its expiry, is not written.
func TestOutOfTime(t *testing.T) {
	c, h := contact(t)
	tally := used(t, c.format.policy, 1)
	for _, exp := range []int64{0, -1, -1 << 62, maxExpires + 1, 1 << 62} {
		for _, bound := range []bool{false, true} {
			require.Equal(t, "before", string(h.AppendOwn([]byte("before"), Own{[6]byte{1}, exp, bound}, &tally)), exp)
		}
	}
	require.NotEmpty(t, h.AppendOwn(nil, Own{Expires: 1}, &tally))

	late, v := c.format.policy.Step(unix(maxExpires), limiter.Tally{}, 1)
	require.True(t, v.Admitted)
	require.Empty(t, h.Append(nil, &late))
	require.True(t, Own{}.IsZero())
	require.False(t, Own{Expires: 1}.IsZero())
}

// TestOwnIsNeverSilent runs real decisions over the whole life of tallies: each
// is told, and what is told is what the next instance goes on with.
func TestOwnIsNeverSilent(t *testing.T) {
	r := random(13)
	for range rounds(150) {
		c, p := randomCodec(t, r, secret("a"))
		h, m := c.Holder(alice), limiter.NewMemory(4, p.Len())
		life := int64(ownLife(p) / time.Second)
		own := Own{ID: [6]byte(randomBytes(r, 6)), Expires: now.Unix() + life, Bound: true}
		candidate := limiter.Candidate{Key: m.Key(own.ID[:])}
		tok := string(h.AppendOwn(nil, own, &limiter.Tally{}))
		ends := unix(own.Expires)
		for at := now.Add(-2 * time.Second); at.Before(ends); {
			got, err := h.Verify(at, tok)
			require.NoError(t, err)
			require.Equal(t, own, got.Own)
			candidate.Shown = got.Tally
			tally, v := m.Take(at, p, &candidate, 0)
			if most := v.Least(p.Len()); most > 0 {
				tally, v = m.Take(at, p, &candidate, []int64{1, most, 1 + r.Int64N(most)}[r.IntN(3)])
				require.True(t, v.Admitted)
			}
			tok = string(h.AppendOwn(nil, own, &tally))
			require.NotEmpty(t, tok, "%+v at %v of %d", describe(p), at.Sub(now), life)
			got, err = h.Verify(at, tok)
			require.NoError(t, err)
			require.Equal(t, p.Merge(at, tally, tally), p.Merge(at, got.Tally, got.Tally))

			left := ends.Sub(at)
			at = at.Add([]time.Duration{1, left / 2, left - 1, time.Duration(1 + r.Int64N(int64(left))), time.Minute}[r.IntN(5)])
		}
	}
}
