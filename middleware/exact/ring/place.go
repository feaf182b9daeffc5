// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// A placer says who owns a key. Its hash is keyed: with another one, who knows the members could look for names of which
// all lie on one of them. A weight is a product of two hashes that nobody sees, and not one more hash for each member.
type placer [sha256.Size]byte

type place [2]uint64

// What is hashed begins with what it is.
const (
	labelPlace  = "tallystick/v1/ring place"
	labelMember = "tallystick/v1/ring member\n"
)

func newPlacer(secret []byte) placer { return placer(derive(secret, labelPlace)) }

func derive(secret []byte, label string) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(label))
	return h.Sum(nil)
}

// secretsOf derives those of one member, so that what was recorded on the way to it is worth nothing at another, which
// does not know the IDs that it has seen.
func secretsOf(secrets [][]byte, address string) [][]byte {
	of := make([][]byte, len(secrets))
	for i, s := range secrets {
		of[i] = derive(s, labelMember+address)
	}
	return of
}

// key returns where a key is: policies of different names count apart.
func (p *placer) key(policy, key string) place {
	var room [160]byte
	b := append(append(room[:0], p[:]...), 'k')
	return placeOf(append(append(append(b, policy...), 0), key...))
}

// member returns where a member is.
func (p *placer) member(address string) place {
	return placeOf(append(append(append([]byte(nil), p[:]...), 'm'), address...))
}

func placeOf(b []byte) place {
	sum := sha256.Sum256(b)
	return place{binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])}
}

// weight returns how much a key would be a member's.
func (m place) weight(key place) uint64 {
	hi, lo := bits.Mul64(m[0]^key[0], m[1]^key[1])
	return hi ^ lo
}
