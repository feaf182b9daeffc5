// SPDX-License-Identifier: Apache-2.0

package ticket

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
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
	keys := kit.Must(NewKeys("contact", [][]byte{testSecret("a")}))(t)
	require.Equal(t, vector, keys.Sign(opensAt, holder))
	got, ok := keys.Verify(vector, holder)
	require.True(t, ok)
	require.Equal(t, opensAt, got)
}

// Every bit of a ticket counts: of its time and serial, and of the whole MAC.
func TestEveryBitCounts(t *testing.T) {
	keys := kit.Must(NewKeys("contact", [][]byte{testSecret("a")}))(t)
	raw := kit.Must(base64.RawURLEncoding.DecodeString(vector))(t)
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
		return kit.Must(NewKeys(policy, secrets))(t)
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
	keys := kit.Must(NewKeys("contact", [][]byte{testSecret("a")}))(t)
	tried := 0
	for serial := uint64(0); tried < 3; serial++ {
		text := keys.Sign(Ticket{opensAt.Opens, serial}, holder)
		raw := kit.Must(base64.RawURLEncoding.DecodeString(text))(t)
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
	keys := kit.Must(NewKeys("contact", [][]byte{testSecret("a")}))(t)
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
	keys := kit.Must(NewKeys("contact", [][]byte{testSecret("b"), testSecret("a")}))(f)
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.Replace(text, "TICKET", vector, 1)
		_, ok := keys.Verify(text, holder)
		require.Equal(t, text == vector, ok)
	})
}

// Tickets are drawn over the whole of the spread, and none is like another.
func TestDraw(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1)
	serials, halves := map[uint64]bool{}, [2]int{}
	for range 1000 {
		drawn := Draw(opensAt.Opens, time.Minute)
		late := drawn.Opens.Sub(opensAt.Opens)
		require.GreaterOrEqual(t, late, time.Duration(0))
		require.LessOrEqual(t, late, time.Minute)
		halves[late/(30*time.Second+1)]++
		serials[drawn.Serial] = true
	}
	require.Len(t, serials, 1000)
	require.InDelta(t, halves[0], halves[1], 150)
	require.Equal(t, opensAt.Opens, Draw(opensAt.Opens, 0).Opens, "no spread")
}

// A ticket lets in its share, and the first request whatever that costs.
func TestUses(t *testing.T) {
	now, ends := opensAt.Opens, opensAt.Opens.Add(10*time.Minute)
	for name, test := range map[string]struct {
		share int64
		costs []int64
		want  []bool
	}{
		"one":                        {1, []int64{1, 1, 0}, []bool{true, false, true}},
		"a share of none is one":     {0, []int64{1, 1}, []bool{true, false}},
		"several":                    {3, []int64{1, 1, 1, 1}, []bool{true, true, true, false}},
		"a dear one after cheap":     {4, []int64{1, 4, 3, 1}, []bool{true, false, true, false}},
		"the first may be dear":      {2, []int64{9, 1}, []bool{true, false}},
		"what costs nothing is free": {1, []int64{0, 0, 1, 1}, []bool{true, true, true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			u := new(Uses)
			for i, cost := range test.costs {
				require.Equal(t, test.want[i], u.Left(now, opensAt, cost, test.share), i)
				require.Equal(t, test.want[i], u.Take(now, opensAt, cost, test.share, ends), i)
			}
		})
	}
	t.Run("given back", func(t *testing.T) {
		u := new(Uses)
		require.True(t, u.Take(now, opensAt, 2, 4, ends))
		require.True(t, u.Take(now, opensAt, 2, 4, ends))
		u.GiveBack(now, opensAt, 2)
		require.False(t, u.Left(now, opensAt, 3, 4))
		require.True(t, u.Left(now, opensAt, 2, 4))
		u.GiveBack(now, Ticket{Serial: 9}, 2) // this ticket is not known
	})
	t.Run("forgotten when the ticket ends", func(t *testing.T) {
		u := new(Uses)
		require.True(t, u.Take(now, opensAt, 1, 1, ends))
		require.False(t, u.Left(ends, opensAt, 1, 1))
		require.True(t, u.Left(ends.Add(time.Second), opensAt, 1, 1))
	})
	t.Run("a full set forgets what ends first", func(t *testing.T) {
		u := new(Uses)
		at := func(i uint64) Ticket { return Ticket{Serial: i * useSets} }
		for i := range uint64(useSetSize + 1) {
			require.True(t, u.Take(now, at(i), 1, 1, ends.Add(time.Duration(i)*time.Second)))
		}
		require.True(t, u.Left(now, at(0), 1, 1))
		for i := range uint64(useSetSize) {
			require.False(t, u.Left(now, at(i+1), 1, 1), i)
		}
	})
	t.Run("of many at once one", func(t *testing.T) {
		u := new(Uses)
		var passed atomic.Int64
		kit.Together(16, func(int) {
			if u.Take(now, opensAt, 1, 1, ends) {
				passed.Add(1)
			}
		})
		require.EqualValues(t, 1, passed.Load())
	})
}
