// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"crypto/subtle"
	"encoding/binary"
	"math"
	"strconv"
)

// maxProofLen is the length in bytes above which a proof is refused unread. It
// has room for the longest proof the format allows, sixteen ten-digit answers.
const maxProofLen = 600

// parseAnswers reads exactly k canonical decimals below 2^32, separated by dots.
// One number has one spelling: a proof is one string, and "007" or "+7" are
// other strings. It stops at the first fault and never reads past 11 bytes of a
// number.
func parseAnswers(s string, k uint8) (numbers [puzzles]uint32, ok bool) {
	for i := range k {
		if i > 0 {
			if s == "" || s[0] != '.' {
				return numbers, false
			}
			s = s[1:]
		}
		if numbers[i], s, ok = parseDecimal(s); !ok {
			return numbers, false
		}
	}
	return numbers, s == ""
}

// parseDecimal reads the decimal at the start of s and returns what follows it.
func parseDecimal(s string) (n uint32, rest string, ok bool) {
	var v uint64
	i := 0
	for i < len(s) && s[i]-'0' <= 9 {
		v = v*10 + uint64(s[i]-'0')
		if v > math.MaxUint32 {
			return 0, "", false
		}
		i++
		if v == 0 {
			break // a zero stands alone
		}
	}
	return uint32(v), s[i:], i > 0
}

// appendProof writes a proof.
func appendProof(b []byte, challenge string, numbers []uint32) []byte {
	b = append(b, challenge...)
	b = append(b, '~')
	for i, n := range numbers {
		if i > 0 {
			b = append(b, '.')
		}
		b = strconv.AppendUint(b, uint64(n), 10)
	}
	return b
}

// equal compares all answers in constant time and says one yes or no.
func equal(a, b *[puzzles]uint32) bool {
	var x, y [4 * puzzles]byte
	for i := range puzzles {
		binary.BigEndian.PutUint32(x[4*i:], a[i])
		binary.BigEndian.PutUint32(y[4*i:], b[i])
	}
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
