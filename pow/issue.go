// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"time"
)

// Issuer issues challenges and verifies proofs. It has no state but its keys: any
// issuer with the same secrets verifies what another one issued. Its methods are
// safe for concurrent use. Make it with [New]; formatted it shows no key.
type Issuer struct {
	ring    *ring
	longest uint16 // ttl, in seconds
}

// New makes an issuer, or reports every problem of c in one error (joined by
// [errors.Join]), each with the field and what is allowed.
func New(c Config) (*Issuer, error) {
	r, err := newRing(c)
	if err != nil {
		return nil, err
	}
	longest := uint16(defaultTTL)
	if c.MaxTTL != 0 {
		longest = uint16(c.MaxTTL / time.Second)
	}
	return &Issuer{ring: r, longest: longest}, nil
}

// Format implements [fmt.Formatter] for every verb.
func (Issuer) Format(f fmt.State, _ rune) { fmt.Fprint(f, "pow.Issuer") }

// Issue makes a challenge for b that costs work expected hashes: 0, or
// [MinWork] to [MaxWork], rounded up to a multiple of four. Its life is 10 s,
// longer where the worst case on a slow client needs it, and at most
// [Config.MaxTTL].
//
// It fails on a price out of range, a binding without a client, and a time that
// 32 bits of Unix seconds cannot hold. All three are mistakes of the caller.
//
// A challenge is cheap (about two microseconds) but not free; limit how often one
// client may ask.
func (is *Issuer) Issue(now time.Time, b Binding, work uint64) (Challenge, error) {
	if work != 0 && (work < MinWork || work > MaxWork) {
		return Challenge{}, fmt.Errorf("pow: work %d, want 0 or %d to %d", work, MinWork, uint64(MaxWork))
	}
	if len(b.Client) == 0 {
		return Challenge{}, errors.New("pow: Binding.Client is empty, want an identity")
	}
	at := now.Unix()
	if at < 0 || at > math.MaxUint32 {
		return Challenge{}, fmt.Errorf("pow: time %d, want Unix seconds from 0 to %d", at, uint32(math.MaxUint32))
	}
	w := is.ring.get()
	defer is.ring.put(w)
	rand.Read(w.nonce[:]) // never fails: the process ends first
	return w.issue(uint32(at), b, work, is.longest), nil
}

// issue makes a challenge around the nonce in w.
func (w *workspace) issue(at uint32, b Binding, work uint64, longest uint16) Challenge {
	key := &w.keys[0]
	h := header{kid: key.kid, issued: at, ttl: ttlOf(work, longest), nonce: w.nonce, tag: w.tag(key.bind, b)}
	if work > 0 {
		h.k, h.span = puzzles, spanOf(work)
	}
	raw := h.append(w.raw[:0])
	if h.k > 0 {
		raw = appendTargets(raw, w.numbers(key, raw, h.span))
	}
	raw = append(raw, w.hmac(key.mac, raw)[:macLen]...)
	var text [maxText]byte
	n := base64.RawURLEncoding.EncodedLen(len(raw))
	base64.RawURLEncoding.Encode(text[:], raw)
	return Challenge{Text: string(text[:n]), Work: workOf(h.k, h.span), TTL: seconds(h.ttl)}
}
