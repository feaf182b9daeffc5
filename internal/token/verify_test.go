// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

// TestRoundTrip: what was appended is what is verified, until it expires.
func TestRoundTrip(t *testing.T) {
	c, h := contact(t)
	tally := used(t, c.format.policy, 3)
	tok := h.Append(nil, &tally)
	require.Equal(t, tok, h.Append(nil, &tally), "the same tally gives the same bytes")
	require.Equal(t, "prefix "+string(tok), string(h.Append([]byte("prefix "), &tally)))

	exp := c.format.policy.Expires(tally)
	got, err := h.Verify(now, string(tok))
	require.NoError(t, err)
	require.Equal(t, Token{Expires: exp, Tally: tally}, got)

	_, err = h.Verify(time.Unix(exp, 0).Add(-1), string(tok))
	require.NoError(t, err)
	_, err = h.Verify(time.Unix(exp, 0), string(tok))
	require.Equal(t, ErrExpired, err)

	require.Empty(t, h.Append(nil, new(used(t, c.format.policy, 0))), "nothing counted, nothing said")
}

// TestForm: the token is what docs/wire.md says it is.
func TestForm(t *testing.T) {
	c, h := contact(t)
	tally := used(t, c.format.policy, 1)
	tok := string(h.Append(nil, &tally))
	segments := strings.Split(tok, ".")
	require.Len(t, segments, 3)
	require.Len(t, segments[0], 56)
	require.Len(t, segments[0]+"."+`eyJhdWQ`, sha256.BlockSize, "what all tokens of a key begin with")
	require.True(t, strings.HasPrefix(segments[1], "eyJhdWQ"), segments[1])
	require.Len(t, segments[2], 43)

	header, err := base64.RawURLEncoding.DecodeString(segments[0])
	require.NoError(t, err)
	require.Len(t, header, 42)
	require.Equal(t, fmt.Sprintf(`{"alg":"HS256","kid":"%s","typ":"t+jwt"}`, c.ring[0].kid), string(header))

	exp := c.format.policy.Expires(tally)
	require.Equal(t, fmt.Sprintf(`{"aud":"contact","sub":"%s","exp":%d,"t":[%d,%d,1,0,%d,2,1,0,%d,%d,0,0]}`,
		subjectOf(&h), exp,
		c.format.policy.ID(0), exp/60-now.Unix()/60, c.format.policy.ID(1), c.format.policy.ID(2), exp*1_000_000-tally[2].At), payload(t, tok))
	require.Regexp(t, `^[A-Za-z][A-Za-z0-9_.-]+$`, tok, "a Token of RFC 9651, and a cookie value")
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
	_, err := h.Verify(now, good)
	require.NoError(t, err)

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
		want, err := base64.RawURLEncoding.DecodeString(good[len(good)-signatureLen:])
		require.NoError(t, err)
		spellings := 0
		for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
			tok := good[:len(good)-1] + string(c)
			got, err := base64.RawURLEncoding.DecodeString(tok[len(tok)-signatureLen:])
			require.NoError(t, err)
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

// TestJoined: tokens joined by a comma, as intermediaries join header lines, are
// no token; taking them apart is for the carrier.
func TestJoined(t *testing.T) {
	c := newCodec(t, compile(t, "p", contactLimits[0]), secret("a"))
	h := c.Holder(alice)
	tally := used(t, c.format.policy, 3)
	good := string(h.Append(nil, &tally))
	for _, joined := range []string{good + "," + good, good + ", " + good, "," + good, good + ",", ", " + good} {
		refused(t, &h, joined)
	}
	require.LessOrEqual(t, len(good+", "+good), MaxLen, "refused for its form, not its length")
	require.Equal(t, ErrMalformed, refused(t, &h, strings.Repeat(good+",", 3)))
}

// TestOrder: a token with several faults is refused for the one that is
// cheapest to find, so that a stranger cannot order the dearer checks.
func TestOrder(t *testing.T) {
	c, h := contact(t)
	k := c.ring[0]
	stranger := c.Holder([]byte("stranger"))
	tally := used(t, c.format.policy, 3)
	theirs := string(stranger.Append(nil, &tally))
	expired := strings.Replace(payload(t, theirs), fmt.Sprint(c.format.policy.Expires(tally)), "1600000000", 1)
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
