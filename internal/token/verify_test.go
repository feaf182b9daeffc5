// SPDX-License-Identifier: Apache-2.0

package token

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// refused requires that a token is refused, by one of our errors and with
// nothing beside it.
func refused(t testing.TB, h *Holder, tok string) error {
	t.Helper()
	got, err := h.Verify(now, tok)
	if err == nil || got != (Token{}) { // require is slow in a loop of 50 000
		require.Failf(t, "accepted", "%q: %v %v", tok, got, err)
	}
	if rest, seen := h.codec.Glance(tok); seen != nil && (seen != err || rest != "") || seen == nil && (err == ErrForeign || err == ErrSecret) {
		require.Failf(t, "at a glance", "%q: %v", tok, err)
	}
	return err
}

// TestEveryChange: of all tokens that differ from a good one in one place, none
// is accepted; of each kind of tally.
func TestEveryChange(t *testing.T) {
	c, h := contact(t)
	tally := used(t, c.format.policy, 3)
	for kind, own := range kinds(c.format.policy) {
		t.Run(kind, func(t *testing.T) {
			everyChange(t, &h, string(give(&h, own, &tally)))
		})
	}
}

func everyChange(t *testing.T, h *Holder, good string) {
	kit.Must(h.Verify(now, good))(t)

	t.Run("T9 every character by every other", func(t *testing.T) { // so every single bit as well
		b := []byte(good)
		for i := range b {
			for d := 1; d < 256; d++ {
				b[i] = good[i] ^ byte(d)
				refused(t, h, string(b))
			}
			b[i] = good[i]
		}
	})
	t.Run("T9 two bits", func(t *testing.T) {
		r := random(3)
		for range rounds(20_000) {
			b := []byte(good)
			i, j := r.IntN(len(b)*8), r.IntN(len(b)*8)
			b[i/8] ^= 1 << (i % 8)
			b[j/8] ^= 1 << (j % 8)
			if i != j {
				refused(t, h, string(b))
			}
		}
	})
	t.Run("T9 truncations from both ends", func(t *testing.T) {
		for i := range good {
			refused(t, h, good[:i])
			if i > 0 {
				refused(t, h, good[i:])
			}
			require.Equal(t, ErrMalformed, refused(t, h, good[:min(i, minLen-1)]))
		}
	})
	t.Run("T14 insertions and deletions everywhere", func(t *testing.T) {
		for i := range len(good) + 1 {
			for _, s := range []string{"\r", "\n", "\r\n", " ", "\t", "\x00", "=", ".", ",", "A", `"`, "%", ";"} {
				refused(t, h, good[:i]+s+good[i:])
			}
			if i < len(good) {
				refused(t, h, good[:i]+good[i+1:])
			}
		}
	})
	t.Run("T14 the four spellings of the last character", func(t *testing.T) {
		want := kit.Must(base64.RawURLEncoding.DecodeString(good[len(good)-signatureLen:]))(t)
		spellings := 0
		for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
			tok := good[:len(good)-1] + string(c)
			got := kit.Must(base64.RawURLEncoding.DecodeString(tok[len(tok)-signatureLen:]))(t)
			if string(got) != string(want) {
				continue
			}
			spellings++
			if tok != good {
				require.Equal(t, ErrForged, refused(t, h, tok))
			}
		}
		require.Equal(t, 4, spellings)
	})
}

// TestOrder: a token with several faults is refused for the one that is
// cheapest to find, so that a stranger cannot order the dearer checks.
func TestOrder(t *testing.T) {
	c, h := contact(t)
	k := c.ring[0]
	stranger := c.Holder([]byte("stranger"))
	tally := used(t, c.format.policy, 3)
	theirs := string(stranger.Append(nil, &tally))
	expired := strings.Replace(payload(t, theirs), fmt.Sprint(c.format.policy.Expires(&tally)), "1600000000", 1)
	expired = expired[:strings.Index(expired, "[")] + "[1,2,3,4]}"
	other := strings.Repeat("A", payloadAt-1) + "."

	require.Equal(t, ErrHolder, refused(t, &h, theirs))
	require.Equal(t, ErrExpired, refused(t, &h, sign(k, expired)), "before the holder")
	require.Equal(t, ErrMalformed, refused(t, &h, sign(k, expired+" ")), "before the expiry")
	forged := sign(k, expired+" ")
	forged = forged[:len(forged)-1] + "!"
	require.Equal(t, ErrForged, refused(t, &h, forged), "before the form of the payload")
	require.Equal(t, ErrForeign, refused(t, &h, other+forged[payloadAt:]), "before the MAC")
	require.Equal(t, ErrForeign, refused(t, &h, sign(k, strings.Replace(expired, "aud", "sub", 1))), "a claim that no token begins with")
	long := other + strings.Repeat("A", MaxLen) + forged[payloadAt:]
	require.Equal(t, ErrMalformed, refused(t, &h, long), "the length before all")
}

// TestT45 holds errors to saying nothing of the token: they are the six
// sentinels themselves, whatever was shown.
func TestT45(t *testing.T) {
	c, h := contact(t)
	r := random(4)
	sentinels := []error{ErrMalformed, ErrForeign, ErrSecret, ErrForged, ErrExpired, ErrHolder}
	tally := used(t, c.format.policy, 3)
	good := string(h.Append(nil, &tally))
	stranger := c.Holder([]byte("stranger"))
	shown := []string{string(stranger.Append(nil, &tally)), "", "secret\r\nlog line", strings.Repeat("A", 600)}
	for range rounds(3000) {
		shown = append(shown, damage(r, good), sign(c.ring[0], damage(r, payload(t, good))))
	}
	for _, tok := range shown {
		if _, err := h.Verify(now, tok); err != nil {
			require.Contains(t, sentinels, err)
		}
	}
	for _, err := range sentinels {
		require.Regexp(t, `^token: [a-z: ]+$`, err.Error())
	}
}

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

			kit.Must(h.Verify(unix(own.Expires).Add(-1), tok))(t)
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

// TestNames changes each byte of a signed payload up to exp, for policies whose
// names end at each place of a group of base64. A subject may become another
// client's, a tally another; all other bytes are fixed.
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
			got := kit.Must(h.Verify(at, tok))(t)
			require.Equal(t, own, got.Own)
			candidate.Shown = got.Tally
			tally, v := m.Take(at, p, &candidate, 0)
			if most := v.Least(p.Len()); most > 0 {
				tally, v = m.Take(at, p, &candidate, []int64{1, most, 1 + r.Int64N(most)}[r.IntN(3)])
				require.True(t, v.Admitted)
			}
			tok = string(h.AppendOwn(nil, own, &tally))
			require.NotEmpty(t, tok, "%+v at %v of %d", describe(p), at.Sub(now), life)
			got = kit.Must(h.Verify(at, tok))(t)
			require.Equal(t, p.Merge(at, tally, tally), p.Merge(at, got.Tally, got.Tally))

			left := ends.Sub(at)
			at = at.Add([]time.Duration{1, left / 2, left - 1, time.Duration(1 + r.Int64N(int64(left))), time.Minute}[r.IntN(5)])
		}
	}
}

// TestStart: wherever in a group of base64 the name of a policy ends, tokens of each kind
// are what encoding/json makes of their claims, and are good for their holder alone,
// whether the key that signed is the first of the ring or not.
func TestStart(t *testing.T) {
	rests := map[int]bool{}
	for _, name := range []string{"a", "ab", "abc", "contact", "contact1", "contact12", strings.Repeat("n", 30), strings.Repeat("n", 31), strings.Repeat("n", 32)} {
		p := compile(t, name, contactLimits...)
		newer, older := newCodec(t, p, secret("new"), secret("old")), newCodec(t, p, secret("old"), secret("new"))
		rests[len(newer.format.startRest)] = true
		tally := used(t, p, 2)
		for kind, own := range kinds(p) {
			for _, signs := range []*Codec{newer, older} {
				h := signs.Holder(alice)
				tok := string(give(&h, own, &tally))
				exp := expires(p, own, &tally)
				said := kit.Must(json.Marshal(signs.format.claims(subjectOf(&h), own, exp, &tally)))(t)
				require.Equal(t, sign(signs.ring[0], string(said)), tok, "%s %s", name, kind)
				for _, reads := range []*Codec{newer, older} {
					reader, stranger := reads.Holder(alice), reads.Holder([]byte("stranger"))
					got, err := reader.Verify(now, tok)
					require.NoError(t, err, "%s %s", name, kind)
					require.Equal(t, Token{exp, tally, own}, got, "%s %s", name, kind)
					rest := kit.Must(reads.Glance(tok))(t)
					require.Equal(t, reads == signs, rest != "", "%s %s", name, kind)
					require.True(t, strings.HasSuffix(tok, rest))
					rest, err = reads.Glance(tok + strings.Repeat("A", MaxLen))
					require.Equal(t, ErrMalformed, err)
					require.Empty(t, rest, "as long as what it is asked about may be, so long it would be hashed")

					if kind != "own" {
						got, err = stranger.Verify(now, tok)
						require.Equal(t, ErrHolder, err, "%s %s", name, kind)
						require.Zero(t, got)
					}
				}
			}
		}
	}
	require.Equal(t, map[int]bool{0: true, 1: true, 2: true}, rests, "bytes that whole groups leave over")
}

// TestStartOfAnotherKey: a subject counts under the key that signed. An equal subject under
// another key of the ring is another client's.
func TestStartOfAnotherKey(t *testing.T) {
	for _, name := range []string{"contact", "contact1", "contact12"} {
		p := compile(t, name, contactLimits...)
		c := newCodec(t, p, secret("new"), secret("old"))
		h := c.Holder(alice)
		tally := used(t, p, 1)
		for kind, own := range kinds(p) {
			if kind == "own" {
				continue // names no holder
			}
			for signs, k := range c.ring {
				for of, named := range c.ring {
					subject := named.subject(alice)
					said := kit.Must(json.Marshal(c.format.claims(subject[:], own, expires(p, own, &tally), &tally)))(t)
					got, err := h.Verify(now, sign(k, string(said)))
					if signs == of {
						require.NoError(t, err, "%s %s", name, kind)
						require.Equal(t, tally, got.Tally)
						continue
					}
					require.Equal(t, ErrHolder, err, "%s %s, subject of key %d signed by %d", name, kind, of, signs)
					require.Zero(t, got)
				}
			}
		}
	}
}

// TestStartIsSpelledOnce: behind the start that is compared as it is spelled, the rest is
// still decoded strictly, from the start of a group.
func TestStartIsSpelledOnce(t *testing.T) {
	for _, name := range []string{"contact", "contact1", "contact12"} {
		p := compile(t, name, contactLimits...)
		c := newCodec(t, p, secret("a"))
		h := c.Holder(alice)
		tally := used(t, p, 1)
		segment := base64.RawURLEncoding.EncodeToString([]byte(payload(t, string(h.Append(nil, &tally)))))
		first := openingLen + len(c.format.lead) + c.format.startLen
		require.Equal(t, c.ring[0].fixed[payloadAt:]+c.format.lead+string(h.start[:c.format.startLen]), segment[:first])
		for at := first - 5; at < first+5; at++ {
			for _, more := range []string{"\n", "\r\n", "=", "A", "\n\n\n\n"} {
				_, err := h.Verify(now, signText(c.ring[0], segment[:at]+more+segment[at:]))
				require.Equal(t, ErrMalformed, err, "%s: %q at %d", name, more, at)
			}
		}
	}
}
