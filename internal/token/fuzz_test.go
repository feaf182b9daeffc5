// SPDX-License-Identifier: Apache-2.0

package token

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
)

// fuzzCodec is the codec of the seeds in testdata/fuzz.
func fuzzCodec(t testing.TB) (*Codec, Holder, [][]byte) {
	secrets := [][]byte{secret("a"), secret("b")}
	c := newCodec(t, compile(t, "contact", contactLimits...), secrets...)
	return c, c.Holder(alice), secrets
}

// allocated returns how many bytes f allocates: the least of a few tries, for
// other goroutines allocate too.
func allocated(f func()) uint64 {
	least := ^uint64(0)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if least = min(least, after.TotalAlloc-before.TotalAlloc); least == 0 {
			break
		}
	}
	return least
}

// FuzzVerify shows any string: Verify does not panic, allocates next to nothing,
// and accepts what the reference accepts.
func FuzzVerify(f *testing.F) {
	c, h, secrets := fuzzCodec(f)
	tally := used(f, c.format.policy, 3)
	for _, own := range kinds(c.format.policy) {
		f.Add(string(give(&h, own, &tally)))
	}
	f.Fuzz(func(t *testing.T, tok string) {
		agree(t, &h, secrets, tok, now)
		if !testkit.Race {
			require.LessOrEqual(t, allocated(func() { _, _ = h.Verify(now, tok) }), uint64(2048))
		}
	})
}

// FuzzPayload signs any payload with the right key: what is accepted, the
// reference accepts too; and what it said, said again by us, is the same.
func FuzzPayload(f *testing.F) {
	c, h, secrets := fuzzCodec(f)
	tally := used(f, c.format.policy, 3)
	for _, own := range kinds(c.format.policy) {
		f.Add(payload(f, string(give(&h, own, &tally))))
	}
	f.Fuzz(func(t *testing.T, text string) {
		tok := sign(c.ring[0], text)
		if !agree(t, &h, secrets, tok, now) {
			return
		}
		got, err := h.Verify(now, tok)
		require.NoError(t, err)
		again := string(repeat(&h, &got))
		exp := expires(c.format.policy, got.Own, &got.Tally)
		if exp == 0 || exp > maxExpires {
			require.Empty(t, again)
			return
		}
		said, p := Token{}, parser{rest: []byte(payload(t, again)[(openingLen+len(c.format.lead))/4*3:]), ok: true}
		subject, own := c.format.parseStart(&p, &said)
		require.True(t, c.format.parseCounts(&p, &said, own), "we cannot read what we wrote: %s", payload(t, again))
		if got.Own.IsZero() || got.Own.Bound {
			require.Equal(t, string(h.subject[:]), string(subject))
		} else {
			require.Empty(t, subject)
		}
		require.Equal(t, exp, said.Expires)
		require.Equal(t, got.Own, said.Own)
		for i, s := range got.Tally {
			if i < len(c.format.fields) && c.format.fields[i].blank(&s) {
				s.At = 0 // a window in which nothing was counted is not told
			}
			require.Equal(t, s, said.Tally[i])
		}
	})
}

// FuzzMAC holds our HMAC to crypto/hmac.
func FuzzMAC(f *testing.F) {
	f.Add([]byte("key"), "prefix", []byte("message"))
	f.Fuzz(func(t *testing.T, key []byte, prefix string, message []byte) {
		sameMAC(t, key[:min(len(key), 64)], prefix, message[:len(message)/2], message[len(message)/2:])
	})
}

// TestSeeds: the committed seeds exist, and some of them get far.
func TestSeeds(t *testing.T) {
	testkit.Seeds(t, 3, "FuzzVerify", "FuzzPayload", "FuzzMAC")
	c, h, _ := fuzzCodec(t)
	read := func(name string) string {
		seed, err := os.ReadFile(filepath.Join("testdata", "fuzz", name))
		require.NoError(t, err)
		text, err := seedString(string(seed))
		require.NoError(t, err)
		return text
	}
	for _, tok := range []string{
		read("FuzzVerify/signed-by-the-second-key"), read("FuzzVerify/own"), read("FuzzVerify/own-and-bound"),
		sign(c.ring[0], read("FuzzPayload/three-limits")), sign(c.ring[0], read("FuzzPayload/own")),
		sign(c.ring[0], read("FuzzPayload/own-and-bound")),
	} {
		_, err := h.Verify(now, tok)
		require.NoError(t, err, "the seed is no longer a good token; write it anew")
	}
}

// seedString returns the string of a seed in the format of go test.
func seedString(seed string) (string, error) {
	_, value, _ := strings.Cut(seed, "\n")
	value = strings.TrimPrefix(strings.TrimSpace(value), "string(")
	return strconv.Unquote(strings.TrimSuffix(value, ")"))
}
