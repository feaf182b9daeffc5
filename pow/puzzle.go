// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
)

// The client hashes a message: seed, puzzle, candidate. Its 40 bytes are
// one SHA-256 block with the padding.
type message [sha256.Size + 4 + 4]byte

// newMessage starts the messages of puzzle i. The seed is the hash of the whole
// signed header, so that an answer fits no other client, route, time or price,
// and no table of answers is ever of use twice.
func newMessage(seed *[sha256.Size]byte, i uint32) message {
	var m message
	copy(m[:], seed[:])
	binary.BigEndian.PutUint32(m[sha256.Size:], i)
	return m
}

// digest hashes candidate n.
func (m *message) digest(n uint32) [sha256.Size]byte {
	binary.BigEndian.PutUint32(m[sha256.Size+4:], n)
	return sha256.Sum256(m[:])
}

// appendTargets appends to a signed header the targets of its hidden numbers.
func appendTargets(header []byte, numbers [puzzles]uint32) []byte {
	seed := sha256.Sum256(header)
	for i, n := range numbers {
		m := newMessage(&seed, uint32(i))
		sum := m.digest(n)
		header = append(header, sum[:targetLen]...)
	}
	return header
}

// search tries the candidates in [from, to) against a target. A wrong candidate
// matches 48 bits with probability 2^-48; over a span of 2^16 that spoils two
// proofs in ten thousand million, and the cure is another challenge.
func (m *message) search(target []byte, from, to uint32) (n uint32, ok bool) {
	for n := from; n < to; n++ {
		if sum := m.digest(n); bytes.Equal(sum[:targetLen], target) {
			return n, true
		}
	}
	return 0, false
}

// hidden maps the bytes of a MAC to the numbers below span. Multiply and shift
// is not perfectly uniform: two numbers differ by at most one preimage among
// 2^32/span. Rejection sampling would need a second MAC now and then and gain a
// solver nothing.
func hidden(sum *[sha256.Size]byte, span uint32) [puzzles]uint32 {
	var numbers [puzzles]uint32
	for i := range numbers {
		u := binary.BigEndian.Uint32(sum[4*i:])
		numbers[i] = uint32(uint64(u) * uint64(span) >> 32)
	}
	return numbers
}
