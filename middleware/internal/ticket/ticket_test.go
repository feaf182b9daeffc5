// SPDX-License-Identifier: Apache-2.0

package ticket

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

func testSecret(name string) []byte {
	sum := sha256.Sum256([]byte("tallystick test secret " + name))
	return sum[:]
}

var (
	opensAt = Ticket{time.Unix(20_000*86_400+5, 0), 0x0102030405060708}
	holder  = []byte("a\xcb\x00\x71\x01") // 203.0.113.1
)

// The vector was computed by hashlib, hmac and base64 of Python.
const vector = "_QGSVNOTiAECAwQFBgcIBBSqG01tODVBn1RNHhkSPn5c"

func TestVector(t *testing.T) {
	keys, err := NewKeys("contact", [][]byte{testSecret("a")})
	require.NoError(t, err)
	require.Equal(t, vector, keys.Sign(opensAt, holder))
	got, ok := keys.Verify(vector, holder)
	require.True(t, ok)
	require.Equal(t, opensAt, got)
}

// Every bit of a ticket counts: of its time and serial, and of the whole MAC.
func TestEveryBitCounts(t *testing.T) {
	keys, err := NewKeys("contact", [][]byte{testSecret("a")})
	require.NoError(t, err)
	raw, err := base64.RawURLEncoding.DecodeString(vector)
	require.NoError(t, err)
	for bit := range 8 * len(raw) {
		raw[bit/8] ^= 1 << (bit % 8)
		_, ok := keys.Verify(base64.RawURLEncoding.EncodeToString(raw), holder)
		require.False(t, ok, "bit %d of byte %d", bit%8, bit/8)
		raw[bit/8] ^= 1 << (bit % 8)
	}
}

func TestTicketsOfOthers(t *testing.T) {
	ring := func(policy string, names ...string) Keys {
		var secrets [][]byte
		for _, name := range names {
			secrets = append(secrets, testSecret(name))
		}
		keys, err := NewKeys(policy, secrets)
		require.NoError(t, err)
		return keys
	}
	verifies := func(keys Keys, text string, who []byte) bool {
		_, ok := keys.Verify(text, who)
		return ok
	}
	ticket := ring("contact", "a").Sign(opensAt, holder)
	require.True(t, verifies(ring("contact", "b", "a"), ticket, holder), "an older secret")
	require.True(t, verifies(ring("contact", "a", "b"), ticket, holder))
	require.True(t, verifies(ring("contact", "a"), ring("contact", "a", "b").Sign(opensAt, holder), holder), "the first secret signs")
	require.False(t, verifies(ring("contact", "b"), ticket, holder), "another secret")
	require.False(t, verifies(ring("contac", "a"), ticket, holder), "another policy")
	for _, who := range []string{"", "a", "a\xcb\x00\x71\x02", "a\xcb\x00\x71\x01\x00", "p\xcb\x00\x71\x01", "wa\xcb\x00\x71\x01"} {
		require.False(t, verifies(ring("contact", "a"), ticket, []byte(who)), "%q", who)
	}
	t.Run("two secrets with one kid", func(t *testing.T) {
		keys := ring("contact", "a", "b")
		keys[0].kid = keys[1].kid
		for i := range keys {
			require.True(t, verifies(keys, keys[i:].Sign(opensAt, holder), holder))
		}
	})
}

// Decoders skip line breaks. Where a MAC ends with a byte of zeros, what is left of a
// ticket without its last character would be the same ticket in another spelling.
func TestLineBreaksAreNoPartOfATicket(t *testing.T) {
	keys, err := NewKeys("contact", [][]byte{testSecret("a")})
	require.NoError(t, err)
	tried := 0
	for serial := uint64(0); tried < 3; serial++ {
		text := keys.Sign(Ticket{opensAt.Opens, serial}, holder)
		raw, err := base64.RawURLEncoding.DecodeString(text)
		require.NoError(t, err)
		if raw[len(raw)-1] != 0 {
			continue
		}
		tried++
		_, ok := keys.Verify(text, holder)
		require.True(t, ok)
		for _, other := range []string{text[:textLen-1] + "\n", "\r" + text[:textLen-1], text[:20] + "\n" + text[20:textLen-1]} {
			_, ok = keys.Verify(other, holder)
			require.False(t, ok, "%q", other)
		}
	}
}

// Nothing is decoded of what is longer than a ticket.
func TestLongTickets(t *testing.T) {
	keys, err := NewKeys("contact", [][]byte{testSecret("a")})
	require.NoError(t, err)
	for _, text := range []string{vector + "A", vector + "AAAA", strings.Repeat("A", 1<<20)} {
		_, ok := keys.Verify(text, holder)
		require.False(t, ok)
	}
}

func TestSeedsExist(t *testing.T) {
	kit.Seeds(t, 11, "FuzzTicket")
}

// FuzzTicket: a ticket has one spelling, and nothing else is one.
func FuzzTicket(f *testing.F) {
	keys, err := NewKeys("contact", [][]byte{testSecret("b"), testSecret("a")})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.Replace(text, "TICKET", vector, 1)
		_, ok := keys.Verify(text, holder)
		require.Equal(t, text == vector, ok)
	})
}
