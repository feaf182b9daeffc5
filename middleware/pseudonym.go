// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
)

// A pseudonymKey turns identities into pseudonyms. The key is behind a second pointer: of what
// lies in an unexported field package fmt follows the first, for some verbs.
type pseudonymKey struct{ key *[sha256.Size]byte }

// newPseudonymKey derives the key by HKDF-SHA256 (RFC 5869), from a label that no other purpose
// has. The policy is no part of it: an operator follows a client from policy to policy,
// and has the addresses anyway. Of what clients see, nothing is made with this key.
func newPseudonymKey(secret []byte) (*pseudonymKey, error) {
	k, err := hkdf.Key(sha256.New, secret, []byte("tallystick/v1"), "tallystick/v1/pseudonym", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("middleware: deriving the key of pseudonyms: %w", err)
	}
	return &pseudonymKey{(*[sha256.Size]byte)(k)}, nil
}

// of returns 80 bits of a keyed hash of an identity's bytes: two clients of a million share a
// pseudonym with a chance of 1 in 2·10¹². Lower-case letters and digits, so that one double
// click takes all of it.
func (k *pseudonymKey) of(identity []byte) string {
	h := hmac.New(sha256.New, k.key[:])
	h.Write(identity)
	sum := h.Sum(nil)
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}
