// SPDX-License-Identifier: Apache-2.0

// Package siphash is a short keyed hash: of subjects in tokens, and of tallies that peers tell each other.
package siphash

import (
	"encoding/binary"
	"math/bits"
)

// A Key is a key of SipHash-2-4 (Aumasson and Bernstein, SipHash: a fast short-input PRF,
// Indocrypt 2012), as its two words.
type Key struct{ k0, k1 uint64 }

// New returns the key of these bytes.
func New(key [16]byte) Key {
	return Key{binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])}
}

// Sum returns SipHash-2-4 of b, in the order of bytes that the paper has.
func (k Key) Sum(b []byte) (sum [8]byte) {
	s := state{
		k.k0 ^ 0x736f6d6570736575,
		k.k1 ^ 0x646f72616e646f6d,
		k.k0 ^ 0x6c7967656e657261,
		k.k1 ^ 0x7465646279746573,
	}
	last := uint64(len(b)) << 56
	for ; len(b) >= 8; b = b[8:] {
		s.absorb(binary.LittleEndian.Uint64(b))
	}
	for i, c := range b {
		last |= uint64(c) << (8 * i)
	}
	s.absorb(last)
	s.v2 ^= 0xff
	for range 4 {
		s.round()
	}
	binary.LittleEndian.PutUint64(sum[:], s.v0^s.v1^s.v2^s.v3)
	return sum
}

type state struct{ v0, v1, v2, v3 uint64 }

func (s *state) absorb(word uint64) {
	s.v3 ^= word
	s.round()
	s.round()
	s.v0 ^= word
}

func (s *state) round() {
	s.v0 += s.v1
	s.v1 = bits.RotateLeft64(s.v1, 13) ^ s.v0
	s.v0 = bits.RotateLeft64(s.v0, 32)
	s.v2 += s.v3
	s.v3 = bits.RotateLeft64(s.v3, 16) ^ s.v2
	s.v0 += s.v3
	s.v3 = bits.RotateLeft64(s.v3, 21) ^ s.v0
	s.v2 += s.v1
	s.v1 = bits.RotateLeft64(s.v1, 17) ^ s.v2
	s.v2 = bits.RotateLeft64(s.v2, 32)
}
