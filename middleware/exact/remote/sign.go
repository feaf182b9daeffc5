// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// macField carries the MAC of a body, in both directions: base64url without padding.
const macField = "Tallystick-Mac"

// What is signed begins with what it is, so that no request is an answer. An answer names
// the request that it is for: else one that was recorded would answer another.
const (
	requestLabel = "tallystick/v1/remote request\n"
	answerLabel  = "tallystick/v1/remote answer\n"
)

// A ring is the keys that both ends share.
type ring [][]byte

// newRing derives a key from each secret, so that what else uses a secret learns nothing.
func newRing(secrets [][]byte) ring {
	r := make(ring, len(secrets))
	for i, secret := range secrets {
		h := hmac.New(sha256.New, secret)
		h.Write([]byte("tallystick/v1/remote key"))
		r[i] = h.Sum(nil)
	}
	return r
}

func mac(key []byte, label, about string, body []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(label))
	h.Write([]byte(about))
	h.Write([]byte{'\n'})
	h.Write(body)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// sign returns the MAC of a body by the first key. about is the MAC of the request that an
// answer is for; "" for a request.
func (r ring) sign(label, about string, body []byte) string { return mac(r[0], label, about, body) }

// verifies reports whether a MAC is of any key.
func (r ring) verifies(label, about string, body []byte, got string) bool {
	good := false
	for _, key := range r {
		good = hmac.Equal([]byte(mac(key, label, about, body)), []byte(got)) || good
	}
	return good
}
