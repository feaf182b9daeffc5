// SPDX-License-Identifier: Apache-2.0

package token

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

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
