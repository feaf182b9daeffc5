// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"encoding/base64"
	"encoding/binary"
)

// The layout of a challenge; see the package documentation.
const (
	version   = 1
	algorithm = 1 // SHA-256, hidden number

	headerLen = 38
	nonceLen  = 16
	tagLen    = 8
	targetLen = 6
	macLen    = 16

	// mostPuzzles bounds what a solver takes on; the issuer uses fewer.
	mostPuzzles = 16

	maxRaw  = headerLen + mostPuzzles*targetLen + macLen
	maxText = maxRaw / 3 * 4
)

// header is the fixed front of a challenge, the part that the puzzles commit to.
type header struct {
	kid    byte
	k      uint8
	issued uint32 // Unix seconds, good until 2106
	ttl    uint16 // seconds
	span   uint32 // R: the hidden numbers are below it
	nonce  [nonceLen]byte
	tag    [tagLen]byte
}

func (h *header) append(b []byte) []byte {
	b = append(b, version, h.kid, algorithm, h.k)
	b = binary.BigEndian.AppendUint32(b, h.issued)
	b = binary.BigEndian.AppendUint16(b, h.ttl)
	b = binary.BigEndian.AppendUint32(b, h.span)
	b = append(b, h.nonce[:]...)
	return append(b, h.tag[:]...)
}

func (h *header) read(b []byte) {
	h.kid, h.k = b[1], b[3]
	h.issued = binary.BigEndian.Uint32(b[4:])
	h.ttl = binary.BigEndian.Uint16(b[8:])
	h.span = binary.BigEndian.Uint32(b[10:])
	copy(h.nonce[:], b[14:])
	copy(h.tag[:], b[30:])
}

// rawLen is the size in bytes of a challenge with k puzzles.
func rawLen(k uint8) int { return headerLen + int(k)*targetLen + macLen }

// decode reads a challenge into dst and returns the part of it that was filled.
// Everything is untrusted still: the MAC has not been looked at.
//
// The decoder of the standard library skips CR and LF (RFC 4648, section 3.3
// lets a specification do so; this one does not). They are refused by comparing
// both lengths, of the text and of the bytes, with the one that k demands.
func (h *header) decode(dst *[maxRaw]byte, text string) ([]byte, error) {
	if len(text) > maxText {
		return nil, errShape
	}
	var src [maxText]byte
	n, err := base64.RawURLEncoding.Decode(dst[:], src[:copy(src[:], text)])
	if err != nil {
		return nil, errAlphabet
	}
	if n < rawLen(0) {
		return nil, errShape
	}
	if dst[0] != version || dst[2] != algorithm {
		return nil, errVersion
	}
	h.read(dst[:])
	// No k above mostPuzzles gets through: its length would be above maxText.
	if n != rawLen(h.k) || len(text) != base64.RawURLEncoding.EncodedLen(n) {
		return nil, errShape
	}
	if (h.k == 0) != (h.span == 0) {
		return nil, errShape
	}
	return dst[:n], nil
}
