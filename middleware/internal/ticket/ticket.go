// SPDX-License-Identifier: Apache-2.0

// Package ticket signs and verifies the tickets of the waiting room, and counts what
// each has let in.
//
// A ticket is no secret and no proof. A client may have any number, and show each
// to many instances at once. Only the quota of the waiting room bounds what tickets
// are worth.
package ticket

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"
)

// A Ticket says from when on its holder may use the waiting room. No two tickets are the
// same. As text it is
//
//	kid      1 byte    which secret
//	opens    6 bytes   Unix milliseconds, big-endian
//	serial   8 bytes   random
//	MAC     18 bytes   of opens, serial and the identity
//
// in base64url: 44 characters, and no bits to spare, so that a ticket has one
// spelling. It does not name policy and identity. It is keyed by the one and covers
// the other: for any other it is a forgery.
type Ticket struct {
	Opens  time.Time
	Serial uint64
}

const (
	textLen   = 44
	opensEnd  = 1 + 6
	serialEnd = opensEnd + 8
	macLen    = 18
)

// Draw returns a new ticket, which opens at a random time of the spread that begins at
// first. It is unpredictable, so a client that comes often has no better chance with
// one ticket.
func Draw(first time.Time, spread time.Duration) Ticket {
	var raw [16]byte
	rand.Read(raw[:]) // never fails: the process ends first
	// The remainder of 64 bits favours the early times of a minute by less than one in
	// 10⁸.
	late := time.Duration(binary.BigEndian.Uint64(raw[8:]) % uint64(spread+1))
	return Ticket{Opens: first.Add(late), Serial: binary.BigEndian.Uint64(raw[:8])}
}

// Keys sign tickets: the first signs, all verify.
type Keys []key

type key struct {
	kid byte
	mac []byte
}

// NewKeys derives the keys of a policy by HKDF-SHA256 (RFC 5869), from labels that no
// other purpose has: neither a window token nor a challenge can be made to look like a
// ticket, and no ticket like one of them. The secrets are those that internal/token
// accepts; at least one.
func NewKeys(policy string, secrets [][]byte) (Keys, error) {
	keys := make(Keys, len(secrets))
	for i, secret := range secrets {
		kid, err := hkdf.Key(sha256.New, secret, nil, "tallystick/wait/kid/2/"+policy, 1)
		if err == nil {
			keys[i].kid = kid[0]
			keys[i].mac, err = hkdf.Key(sha256.New, secret, nil, "tallystick/wait/mac/2/"+policy, sha256.Size)
		}
		if err != nil {
			return nil, fmt.Errorf("middleware: deriving the keys of wait tickets: %w", err)
		}
	}
	return keys, nil
}

// Sign returns the text of a ticket for a holder: the bytes of an identity.
func (keys Keys) Sign(t Ticket, holder []byte) string {
	var raw [serialEnd + macLen]byte
	var opens [8]byte
	binary.BigEndian.PutUint64(opens[:], uint64(t.Opens.UnixMilli()))
	raw[0] = keys[0].kid
	copy(raw[1:opensEnd], opens[2:]) // enough until the year 10889
	binary.BigEndian.PutUint64(raw[opensEnd:], t.Serial)
	keys[0].sign(raw[serialEnd:], raw[1:serialEnd], holder)
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// Verify returns the ticket of a holder. It is not ok if these keys did not sign it for
// that holder. Nothing of it is read before its MAC has been found good.
func (keys Keys) Verify(text string, holder []byte) (t Ticket, ok bool) {
	var raw [serialEnd + macLen]byte
	if len(text) != textLen {
		return t, false
	}
	// The decoder skips line breaks: fewer bytes then.
	if n, err := base64.RawURLEncoding.Decode(raw[:], []byte(text)); err != nil || n != len(raw) {
		return t, false
	}
	for i := range keys { // two secrets may have the same short kid
		var want [macLen]byte
		if keys[i].kid != raw[0] {
			continue
		}
		if keys[i].sign(want[:], raw[1:serialEnd], holder); hmac.Equal(want[:], raw[serialEnd:]) {
			var opens [8]byte
			copy(opens[2:], raw[1:opensEnd])
			return Ticket{time.UnixMilli(int64(binary.BigEndian.Uint64(opens[:]))), binary.BigEndian.Uint64(raw[opensEnd:])}, true
		}
	}
	return t, false
}

// sign writes the MAC. Time and serial have a fixed size, so that nothing of them can
// pass for a piece of the identity.
func (k *key) sign(mac, signed, holder []byte) {
	h := hmac.New(sha256.New, k.mac)
	h.Write(signed)
	h.Write(holder)
	var sum [sha256.Size]byte
	copy(mac, h.Sum(sum[:0]))
}
