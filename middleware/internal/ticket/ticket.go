// Package ticket signs and verifies the tickets of the waiting room.
//
// A ticket is no secret and no proof. Its holder may show it again, to many
// instances at once, and anybody can have any number. The quota of the waiting room
// alone bounds what tickets are worth.
package ticket

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"
)

// A ticket says from when on its holder may use the waiting room. It is
//
//	kid      1 byte    which secret
//	opens    8 bytes   Unix milliseconds, big-endian
//	MAC     24 bytes   of opens and the identity
//
// in base64url: 44 characters, and no bits to spare, so that a ticket has one
// spelling. It does not name policy and identity. It is keyed by the one and covers
// the other: for any other it is a forgery.
const (
	textLen  = 44
	macLen   = 24
	opensEnd = 1 + 8
)

// Keys sign tickets: the first signs, all verify.
type Keys []key

type key struct {
	kid byte
	mac []byte
}

// NewKeys derives the keys of a policy by HKDF-SHA256 (RFC 5869), from labels that no
// other purpose has: neither a window token nor a challenge can be made to look like a
// ticket, and no ticket like one of them. The secrets are those that package token
// accepts; at least one.
func NewKeys(policy string, secrets [][]byte) (Keys, error) {
	keys := make(Keys, len(secrets))
	for i, secret := range secrets {
		kid, err := hkdf.Key(sha256.New, secret, nil, "tallystick/wait/kid/1/"+policy, 1)
		if err == nil {
			keys[i].kid = kid[0]
			keys[i].mac, err = hkdf.Key(sha256.New, secret, nil, "tallystick/wait/mac/1/"+policy, sha256.Size)
		}
		if err != nil {
			return nil, fmt.Errorf("middleware: deriving the keys of wait tickets: %w", err)
		}
	}
	return keys, nil
}

// Issue returns the ticket that admits the holder from opens on. The holder is the
// bytes of an identity.
func (keys Keys) Issue(opens time.Time, holder []byte) string {
	var raw [opensEnd + macLen]byte
	raw[0] = keys[0].kid
	binary.BigEndian.PutUint64(raw[1:], uint64(opens.UnixMilli()))
	keys[0].sign(raw[opensEnd:], raw[1:opensEnd], holder)
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// Verify returns when the ticket of a holder opens. It is not ok if these keys did not
// sign it for that holder. Nothing of it is read before its MAC has been found good.
func (keys Keys) Verify(text string, holder []byte) (opens time.Time, ok bool) {
	var raw [opensEnd + macLen]byte
	if len(text) != textLen {
		return time.Time{}, false
	}
	// The decoder skips line breaks: fewer bytes then.
	if n, err := base64.RawURLEncoding.Decode(raw[:], []byte(text)); err != nil || n != len(raw) {
		return time.Time{}, false
	}
	for i := range keys { // two secrets may have the same short kid
		var want [macLen]byte
		if keys[i].kid != raw[0] {
			continue
		}
		if keys[i].sign(want[:], raw[1:opensEnd], holder); hmac.Equal(want[:], raw[opensEnd:]) {
			return time.UnixMilli(int64(binary.BigEndian.Uint64(raw[1:]))), true
		}
	}
	return time.Time{}, false
}

// sign writes the MAC. The time has a fixed size, so that nothing of it can pass
// for a piece of the identity.
func (k *key) sign(mac, opens, holder []byte) {
	h := hmac.New(sha256.New, k.mac)
	h.Write(opens)
	h.Write(holder)
	var sum [sha256.Size]byte
	copy(mac, h.Sum(sum[:0]))
}
