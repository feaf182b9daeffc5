package middleware

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"
)

// A wait ticket says from when on its holder may use the wait lane. It is
//
//	kid      1 byte    which secret
//	opens    8 bytes   Unix milliseconds, big-endian
//	MAC     24 bytes   of opens and the identity
//
// in base64url: 44 characters, and no bits to spare, so that a ticket has one
// spelling. It does not name policy and identity but is keyed by the one and
// covers the other: for any other it is a forgery. It is no secret and no proof:
// whoever shows it may show it again, and what that is worth is bounded by the
// lane's family alone.
const (
	ticketLen = 44
	ticketMAC = 24
	opensEnd  = 1 + 8

	// A wait is long enough to be a nuisance to scripts and short enough not to
	// be one to people. That is all it is for: the bound is the lane's quota.
	firstWait = 5 * time.Second

	// fullWait is how long a ticket takes to open while the memory is full.
	fullWait = time.Minute

	// A ticket must outlive a person who types a password again. It bounds
	// nothing either: a new one is there for the asking.
	ticketLife = 10 * time.Minute
)

// ticketKeys sign tickets: the first signs, all verify.
type ticketKeys []ticketKey

type ticketKey struct {
	kid byte
	mac []byte
}

// newTicketKeys derives the keys of a policy by HKDF-SHA256 (RFC 5869), from
// labels that no other purpose has: neither a window token nor a challenge can
// be made to look like a ticket, and no ticket like one of them. The secrets are
// those that the codec accepts.
func newTicketKeys(policy string, secrets [][]byte) (ticketKeys, error) {
	keys := make(ticketKeys, len(secrets))
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

// issue returns the ticket that lets who in from opens on.
func (keys ticketKeys) issue(opens time.Time, who []byte) string {
	var raw [opensEnd + ticketMAC]byte
	raw[0] = keys[0].kid
	binary.BigEndian.PutUint64(raw[1:], uint64(opens.UnixMilli()))
	keys[0].sign(raw[opensEnd:], raw[1:opensEnd], who)
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// verify returns when the ticket of who opens. It is not ok if we did not sign
// it for him. Nothing of it is read before its MAC has been found good.
func (keys ticketKeys) verify(text string, who []byte) (opens time.Time, ok bool) {
	var raw [opensEnd + ticketMAC]byte
	if len(text) != ticketLen {
		return time.Time{}, false
	}
	// The decoder skips line breaks: fewer bytes then.
	if n, err := base64.RawURLEncoding.Decode(raw[:], []byte(text)); err != nil || n != len(raw) {
		return time.Time{}, false
	}
	for i := range keys { // two secrets may have the same short kid
		var want [ticketMAC]byte
		if keys[i].kid != raw[0] {
			continue
		}
		if keys[i].sign(want[:], raw[1:opensEnd], who); hmac.Equal(want[:], raw[opensEnd:]) {
			return time.UnixMilli(int64(binary.BigEndian.Uint64(raw[1:]))), true
		}
	}
	return time.Time{}, false
}

// sign writes the MAC. The time has a fixed size, so that nothing of it can pass
// for a piece of the identity.
func (k *ticketKey) sign(mac, opens, who []byte) {
	h := hmac.New(sha256.New, k.mac)
	h.Write(opens)
	h.Write(who)
	var sum [sha256.Size]byte
	copy(mac, h.Sum(sum[:0]))
}
