// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSipHashVectors: of the key 00 01 … 0f and the message 00 01 … of each length, as the
// authors of SipHash have published them; the last is the example of the paper's appendix.
// testdata/windowtoken.py is written from the paper once more, and the vectors hold the two
// equal for identities of all lengths.
func TestSipHashVectors(t *testing.T) {
	var key [16]byte
	for i := range key {
		key[i] = byte(i)
	}
	for n, want := range map[int]string{
		0: "310e0edd47db6f72", 1: "fd67dc93c539f874", 2: "5a4fa9d909806c0d", 3: "2d7efbd796666785",
		4: "b7877127e09427cf", 5: "8da699cd64557618", 6: "cee3fe586e46c9cb", 7: "37d1018bf50002ab",
		8: "6224939a79f5f593", 15: "e545be4961ca29a1",
	} {
		message := make([]byte, n)
		for i := range message {
			message[i] = byte(i)
		}
		sum := sipKeyOf(key).sum(message)
		require.Equal(t, want, hex.EncodeToString(sum[:]), "%d bytes", n)
	}
}

// TestSubjectIsAHash: under half of the key that is derived for it, and of all of the
// identity, whatever its length. A bit more or less is somebody else.
func TestSubjectIsAHash(t *testing.T) {
	bind, err := hkdf.Key(sha256.New, secret("a"), []byte("tallystick/v1"), "tallystick/v1/bind/contact", 32)
	require.NoError(t, err)
	key := sipKeyOf([16]byte(bind[:16]))
	c, _ := contact(t)
	r := random(11)
	for n := range 70 {
		identity := randomBytes(r, n)
		sum := key.sum(identity)
		subject := c.Holder(identity).subject
		require.Equal(t, base64.RawURLEncoding.EncodeToString(sum[:6]), string(subject[:]), "%d bytes", n)

		seen := map[[subjectLen]byte]bool{subject: true}
		for i := range 8 * n {
			identity[i/8] ^= 1 << (i % 8)
			seen[c.Holder(identity).subject] = true
			identity[i/8] ^= 1 << (i % 8)
		}
		seen[c.Holder(append(identity, 0)).subject] = true
		require.Len(t, seen, 8*n+2, "%d bytes", n)
	}
}
