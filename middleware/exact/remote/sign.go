// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"sync"
)

const (
	// macField carries the MAC of a request. One that is over its digest alone can be checked
	// before the body is read.
	macField = "Tallystick-Mac"

	// digestField carries the SHA-256 of a request's body, as in RFC 9530.
	digestField = "Content-Digest"
)

// A signed text begins with its kind, so that no request is an answer. An answer names its request:
// else a recorded one would answer another.
const (
	requestLabel = "tallystick/v1/remote request\n"
	answerLabel  = "tallystick/v1/remote answer\n"
)

// macLen is how long a MAC is: base64url without padding.
const macLen = 43

// digestLen is how long the value of digestField is.
const digestLen = len("sha-256=::") + 44

// digestOf returns the value of digestField.
func digestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// A ring is the keys that both ends share.
type ring []*sync.Pool

// A signer makes MACs by one key. It is used again: to begin with the key is half of what a short one costs.
type signer struct {
	hash.Hash
	head []byte
}

// newRing derives a key from each secret, so that what else uses a secret learns nothing.
func newRing(secrets [][]byte) ring {
	r := make(ring, len(secrets))
	for i, secret := range secrets {
		h := hmac.New(sha256.New, secret)
		h.Write([]byte("tallystick/v1/remote key"))
		key := h.Sum(nil)
		r[i] = &sync.Pool{New: func() any { return &signer{Hash: hmac.New(sha256.New, key)} }}
	}
	return r
}

func mac(key *sync.Pool, label, about string, text []byte) string {
	s := key.Get().(*signer)
	defer key.Put(s)
	s.Reset()
	s.head = append(append(append(s.head[:0], label...), about...), '\n')
	s.Write(s.head)
	s.Write(text)
	s.head = s.Sum(s.head[:0])
	return base64.RawURLEncoding.EncodeToString(s.head)
}

// sign returns the MAC of a text by the first key: of the digest of a request, or of a line of an
// answer. about is the MAC of the request that an answer is for; "" for a request.
func (r ring) sign(label, about string, text []byte) string { return mac(r[0], label, about, text) }

// verifies reports whether a MAC is of any key.
func (r ring) verifies(label, about string, text []byte, got string) bool {
	good := false
	for _, key := range r {
		good = hmac.Equal([]byte(mac(key, label, about, text)), []byte(got)) || good
	}
	return good
}
