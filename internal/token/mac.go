// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto/sha256"
	"encoding"
	"hash"
	"sync"
)

// A mac is HMAC-SHA256 (RFC 2104) under one key, with a prefix of the message
// already absorbed: the two SHA-256 states that hold key and prefix, saved once.
//
// crypto/hmac keeps such states too, but only of the key: with the token's fixed
// start a block more is absorbed here: for one or two limits a quarter of all the
// hashing of a request, which verifies and signs, and a fifth for three.
// mac_test.go holds the two equal.
type mac struct{ inner, outer []byte }

// newMAC takes a key of at most one block, 64 bytes.
func newMAC(key []byte, prefix string) mac {
	state := func(pad byte, prefix string) []byte {
		var block [sha256.BlockSize]byte
		copy(block[:], key)
		for i := range block {
			block[i] ^= pad
		}
		h := sha256.New()
		h.Write(block[:])
		h.Write([]byte(prefix))
		saved, err := h.(encoding.BinaryMarshaler).MarshalBinary()
		if err != nil {
			panic(err) // crypto/sha256 documents that its hash is a marshaler
		}
		return saved
	}
	return mac{inner: state(0x36, prefix), outer: state(0x5c, "")}
}

// A scratch is pooled, so that neither signing nor verifying
// allocates. What is hashed is copied in first: a slice handed to an interface
// would move its owner's array to the heap.
type scratch struct {
	hash  hash.Hash
	state encoding.BinaryUnmarshaler // hash again
	sum   [sha256.Size]byte
	json  [jsonMax]byte
	text  [textMax]byte
}

// All codecs share the scratches: one for each codec would not stay in the caches of a process with a
// hundred policies.
var scratches = sync.Pool{New: func() any {
	h := sha256.New()
	return &scratch{hash: h, state: h.(encoding.BinaryUnmarshaler)}
}}

// authenticate returns the MAC of a message with a prefix that is absorbed already. The
// result is valid until the next call.
func (s *scratch) authenticate(m *mac, message []byte) []byte {
	s.restore(m.inner)
	s.hash.Write(message)
	inner := s.hash.Sum(s.sum[:0])
	s.restore(m.outer)
	s.hash.Write(inner)
	return s.hash.Sum(s.sum[:0])
}

func (s *scratch) restore(state []byte) {
	if err := s.state.UnmarshalBinary(state); err != nil {
		panic(err) // the state was made by the same package
	}
}
