// SPDX-License-Identifier: Apache-2.0

package token

import (
	"bytes"
	"crypto/fips140"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// sameMAC requires that our MAC of a message in parts is that of crypto/hmac. Theirs is
// exempt from GODEBUG=fips140=only, where it panics at a key of less than 14 bytes; keys
// are derived and have 32, but the arithmetic is right for any length, and is held to it.
func sameMAC(t testing.TB, key []byte, prefix string, parts ...[]byte) {
	t.Helper()
	m := newMAC(key, prefix)
	var theirs hash.Hash
	fips140.WithoutEnforcement(func() { theirs = hmac.New(sha256.New, key) })
	theirs.Write([]byte(prefix))
	s := newScratch().(*scratch)
	for range 2 { // a scratch and a mac can be used again
		if got := s.authenticate(&m, bytes.Join(parts, nil)); !hmac.Equal(got, sumOf(theirs, parts)) {
			require.Failf(t, "not HMAC", "key %x prefix %x message %x", key, prefix, parts)
		}
		theirs.Reset()
		theirs.Write([]byte(prefix))
	}
}

func sumOf(h interface {
	Write([]byte) (int, error)
	Sum([]byte) []byte
}, parts [][]byte) []byte {
	for _, part := range parts {
		_, _ = h.Write(part)
	}
	return h.Sum(nil)
}

// TestMAC compares with crypto/hmac around every block boundary, and at random.
func TestMAC(t *testing.T) {
	r := random(9)
	for n := range 201 { // a prefix is a fixed start of 64 bytes, but may become another
		sameMAC(t, randomBytes(r, 32), string(randomBytes(r, n)), randomBytes(r, 200-n))
		sameMAC(t, randomBytes(r, 32), string(randomBytes(r, n)))
		sameMAC(t, randomBytes(r, r.IntN(sha256.BlockSize+1)), string(randomBytes(r, r.IntN(201))),
			randomBytes(r, r.IntN(600)), nil, randomBytes(r, r.IntN(70)))
	}
	sameMAC(t, nil, "")
	sameMAC(t, make([]byte, 64), "")
}

// TestMACVectors: RFC 4231, test cases 1, 2 and 3, and the MAC of nothing.
func TestMACVectors(t *testing.T) {
	fill := func(b byte, n int) (s []byte) {
		for range n {
			s = append(s, b)
		}
		return s
	}
	for want, tt := range map[string][2][]byte{
		"b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7": {fill(0x0b, 20), []byte("Hi There")},
		"5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843": {[]byte("Jefe"), []byte("what do ya want for nothing?")},
		"773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe": {fill(0xaa, 20), fill(0xdd, 50)},
		"b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad": {nil, nil},
	} {
		m := newMAC(tt[0], "")
		s := newScratch().(*scratch)
		require.Equal(t, want, fmt.Sprintf("%x", s.authenticate(&m, tt[1])))
	}
}

// TestParallel uses one codec from many goroutines, each with tokens of its own:
// nothing of one shows up in another. Its point is the race detector.
func TestParallel(t *testing.T) {
	p := compile(t, "contact", contactLimits...)
	c := newCodec(t, p, secret("new"), secret("old"))
	old := newCodec(t, p, secret("old"))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			identity := []byte(fmt.Sprint("client ", g))
			h, before := c.Holder(identity), old.Holder(identity)
			tally := used(t, p, int64(g%5)+1)
			want, aged := string(h.Append(nil, &tally)), string(before.Append(nil, &tally))
			for range 200 {
				h := c.Holder(identity)
				tok := string(h.Append(nil, &tally))
				got, err := h.Verify(now, tok)
				of, errOf := h.Verify(now, aged)
				_, errBad := h.Verify(now, tok[:len(tok)-1]+"!")
				if tok != want || err != nil || got.Tally != tally || errOf != nil || of.Tally != tally || errBad != ErrForged {
					t.Errorf("client %d: %v %v %v", g, err, errOf, errBad)
				}
			}
		})
	}
	wg.Wait()
}
