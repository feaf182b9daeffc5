// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
)

// TestRotation walks the rotation of doc.go over a fleet. Whoever knows a secret
// reads what it signed, in either order; between neighbouring steps, which is
// all that a rollout mixes, everybody reads everybody.
func TestRotation(t *testing.T) {
	p := compile(t, "contact", contactLimits...)
	for kind, own := range kinds(p) {
		t.Run(kind, func(t *testing.T) { rotate(t, p, own) })
	}
}

func rotate(t *testing.T, p *limiter.Policy, own Own) {
	tally := used(t, p, 3)
	steps := [][]string{
		{"older"},
		{"older", "newer"}, // 1. all know the new secret
		{"newer", "older"}, // 2. all sign with it
		{"newer"},          // 3. when the last old token has expired
	}
	fleet := make([]Holder, len(steps))
	for i, names := range steps {
		var secrets [][]byte
		for _, name := range names {
			secrets = append(secrets, secret(name))
		}
		fleet[i] = newCodec(t, p, secrets...).Holder(alice)
	}
	for i := range fleet {
		tok := string(give(&fleet[i], own, &tally))
		for j := range fleet {
			known := slices.Contains(steps[j], steps[i][0])
			require.True(t, known || i-j > 1 || j-i > 1, "neighbours: %d reads %d", j, i)
			got, err := fleet[j].Verify(now, tok)
			if !known {
				require.Equal(t, ErrSecret, err, "%d reads %d", j, i)
				require.ErrorIs(t, err, ErrForeign)
				continue
			}
			require.NoError(t, err, "%d reads %d", j, i)
			require.Equal(t, Token{expires(p, own, &tally), tally, own}, got)

			// What is signed next is of the same tally, under the newest key.
			next, err := fleet[j].Verify(now, string(repeat(&fleet[j], &got)))
			require.NoError(t, err)
			require.Equal(t, got, next)

			// The subject is looked up under the token's own key, and compared.
			stranger := fleet[j].codec.Holder([]byte("stranger"))
			of, err := stranger.Verify(now, tok)
			if own != (Own{}) && !own.Bound {
				require.NoError(t, err, "%d reads %d", j, i)
				require.Equal(t, got, of)
				continue
			}
			require.Equal(t, ErrHolder, err, "%d reads %d", j, i)
		}
	}
}

// deriveOther derives a key for another purpose from a secret, as other kinds of
// token do, and dresses it for the window tokens of a policy with another typ.
func deriveOther(t testing.TB, purpose, typ, policy string, secret []byte) *key {
	prk, err := hkdf.Extract(sha256.New, secret, []byte("tallystick/v1"))
	require.NoError(t, err)
	k := *deriveKey(policy, secret)
	k.window, err = hkdf.Expand(sha256.New, prk, "tallystick/v1/"+purpose+"/"+policy, 32)
	require.NoError(t, err)
	k.fixed = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"`+k.kid+`","typ":"`+typ+`"}`)) + k.fixed[payloadAt-1:]
	return &k
}

// TestT15 shows every verifier every kind of token, of every policy, under every
// secret: only its own passes.
func TestT15(t *testing.T) {
	type place struct{ purpose, typ, policy, secret string }
	var places []place
	for _, kind := range [][2]string{
		{"window", "t+jwt"}, {"window", "other+jwt"},
		{"challenge", "t+jwt"}, {"answers", "t+jwt"}, {"bind", "t+jwt"}, {"kid", "t+jwt"},
	} {
		for _, policy := range []string{"contact", "signup"} {
			for _, secret := range []string{"one", "two"} {
				places = append(places, place{kind[0], kind[1], policy, secret})
			}
		}
	}
	own := 0
	for _, policy := range []string{"contact", "signup"} {
		p := compile(t, policy, contactLimits...)
		for _, name := range []string{"one", "two"} {
			c := newCodec(t, p, secret(name))
			h := c.Holder(alice)
			tally := used(t, p, 1)
			said := payload(t, string(h.Append(nil, &tally))) // what this verifier would believe
			for _, from := range places {
				k := deriveOther(t, from.purpose, from.typ, from.policy, secret(from.secret))
				_, err := h.Verify(now, sign(k, said))
				if from == (place{"window", "t+jwt", policy, name}) {
					require.NoError(t, err)
					own++
					continue
				}
				require.Error(t, err, "%v at %s, %s", from, policy, name)

				// And with our header over it, whatever it was signed for.
				ours := *k
				ours.fixed = c.ring[0].fixed
				swapped := header(&ours) + sign(k, said)[len(header(k)):]
				require.Equal(t, ErrForged, refused(t, &h, swapped), "%v at %s, %s", from, policy, name)
				if from.purpose != "window" || from.policy != policy || from.secret != name {
					require.Equal(t, ErrForged, refused(t, &h, sign(&ours, said)), "%v at %s, %s", from, policy, name)
				}
			}
		}
	}
	require.Equal(t, 4, own)
}

// TestSubjects: one identity has another subject for each policy and secret, so
// that tokens of two sites cannot be put together, and no subject is a plain
// hash.
func TestSubjects(t *testing.T) {
	seen := map[string]string{}
	for _, policy := range []string{"contact", "signup"} {
		for _, name := range []string{"one", "two"} {
			c := newCodec(t, compile(t, policy, limiter.Limit{Quota: 1, Window: 1e9}), secret(name))
			identities := []string{"a", "b", "aa"}
			for _, n := range []int{0, 1, 2, 7, 8, 9, 15, 16, 17, 255, 256, 257, 264, 512, 4096} {
				identities = append(identities, string(make([]byte, n)))
			}
			for _, identity := range identities {
				h := c.Holder([]byte(identity))
				where := policy + " " + name + " " + identity
				require.Empty(t, seen[string(subjectOf(&h))], where)
				seen[string(subjectOf(&h))] = where
			}
		}
	}
}

// What differs in the key id alone is of another secret; what is another policy's, or of another kind,
// is foreign and nothing more, also where the name of one policy begins the other's.
func TestTokensOfAnotherSecret(t *testing.T) {
	for _, name := range []string{"a", "ab", "abc", "contact"} { // names end at each place of a group of base64
		p := compile(t, name, contactLimits...)
		tally := used(t, p, 1)
		h := newCodec(t, p, secret("one"), secret("two")).Holder(alice)
		for kind, own := range kinds(p) {
			theirs := newCodec(t, p, secret("three")).Holder(alice)
			tok := string(give(&theirs, own, &tally))
			require.Equal(t, ErrSecret, refused(t, &h, tok), kind)
			require.Equal(t, ErrSecret, refused(t, &h, tok[:len(tok)-1]+"!"), "%s: nothing is computed", kind)
			require.Equal(t, ErrForeign, refused(t, &h, "A"+tok[1:]), "%s: another header", kind)
			require.Equal(t, ErrForeign, refused(t, &h, tok[:kidEnd]+"A"+tok[kidEnd+1:]), "%s: another header", kind)
			require.Equal(t, ErrForeign, refused(t, &h, tok[:fixedLen-1]+"!"+tok[fixedLen:]), "%s: another claim", kind)
			require.Equal(t, ErrForeign, refused(t, &h, tok[:fixedLen]+"!!!!!!!!!!!!"+tok[fixedLen+12:]), "%s: another policy", kind)
			for _, other := range []string{name + "-2", name + "d", "b" + name[1:]} {
				q := compile(t, other, contactLimits...)
				theirs := newCodec(t, q, secret("three")).Holder(alice)
				require.Equal(t, ErrForeign, refused(t, &h, string(give(&theirs, own, &tally))), "%s: of policy %s", kind, other)
			}
		}
	}
}

func TestKeyIDsAreThoseOfTokens(t *testing.T) {
	p := compile(t, "contact", contactLimits...)
	c := newCodec(t, p, secret("one"), secret("two"))
	ids := c.KeyIDs()
	require.Len(t, ids, 2)
	require.NotEqual(t, ids[0], ids[1])
	h, tally := c.Holder(alice), used(t, p, 1)
	header, err := base64.RawURLEncoding.DecodeString(string(h.Append(nil, &tally))[:payloadAt-1])
	require.NoError(t, err)
	require.JSONEq(t, `{"alg":"HS256","kid":"`+ids[0]+`","typ":"t+jwt"}`, string(header))
}
