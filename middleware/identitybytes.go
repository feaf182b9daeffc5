// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"crypto/sha256"
	"encoding/binary"
)

// longestInFull is how long a name may be that stands for itself, in bytes. All that is made out to
// an identity hashes its bytes, some ten times in all: what a client chose to be long is hashed once.
const longestInFull = 256

// append appends the bytes that no other identity has: the kind, then an
// address of fixed length or the rest.
func (id *Identity) append(b []byte) []byte {
	b = append(b, id.kind)
	switch {
	case id.named > longestInFull:
		sum := sha256.Sum256([]byte(id.text[:id.named]))
		b[len(b)-1] &^= inFull // no name can be chosen to be the hash of another
		b = append(b, sum[:]...)
	case id.kind != kindAddress:
		b = append(b, id.text[:id.named]...)
	case id.is4:
		b = append(b, id.addr[:4]...)
	case nat64Local.Contains(id.Addr()):
		b = append(b, id.addr[:]...)
	default:
		b = append(b, id.addr[:8]...)
	}
	thing := id.text[id.named:]
	if thing == "" {
		return b
	}
	// The kind tells an identity from one that is narrowed, and the length where
	// the name ends: none can be chosen to look like another.
	whole := len(b)
	b[0] |= narrowed
	b = append(b, thing...)
	return binary.BigEndian.AppendUint32(b, uint32(whole))
}

// appendNet appends the bytes of the network of the given bits around an IPv6
// identity. The length keeps 2001:db8::/48 apart from 2001:db8::/56.
func (id *Identity) appendNet(b []byte, bits int) []byte {
	a := masked(id.Addr(), bits).As16()
	return append(append(b, kindNet, byte(bits)), a[:8]...)
}

// provider returns a number for whom an address comes from: the first 16 bits of an IPv4
// address, 29 of an IPv6 address, which is what a provider gets for the asking. 0 stands
// for identities that nobody can have any number of, such as keys and users.
func (id *Identity) provider() uint64 {
	switch {
	case id.kind&^narrowed != kindAddress:
		return 0
	case id.is4:
		return 1<<32 | uint64(id.addr[0])<<8 | uint64(id.addr[1])
	}
	return 2<<32 | uint64(binary.BigEndian.Uint32(id.addr[:4])>>3)
}

// wide reports whether id belongs to larger networks that are limited too.
func (id *Identity) wide() bool {
	return id.kind == kindAddress && !id.is4 && !nat64Local.Contains(id.Addr())
}
