// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"
	"time"
)

// ahead is how many seconds the clock of the issuing instance may be in front of
// the clock of the verifying one.
const ahead = 2

// idLabel keeps the id of a challenge apart from its seed, which clients know.
const idLabel = "tallystick/pow/id/1"

// Receipt says what was proved. Every byte of it derives from the challenge
// alone: the same proof always gives the same receipt, on every instance, so
// what is granted from a receipt can be granted again without loss.
type Receipt struct {
	// ID names the challenge. It is not secret: it can be computed from the
	// challenge.
	ID [16]byte
	// Serial is a shorter name of the challenge: the first six bytes of the nonce.
	Serial [6]byte
	// Issued is when the challenge was issued, rounded down to the second.
	Issued time.Time
	// Expires is the first instant at which Verify refuses the proof, and so the
	// moment a register of used IDs may forget this one.
	Expires time.Time
	// Work is the price that was paid, in expected hashes; at least what Issue
	// was asked for.
	Work uint64
}

// Verify checks a proof, that is "<challenge>~<answers>", and says what it
// proves. It accepts a proof from 2 s before the challenge was issued (the
// clocks of two instances) until its ttl has passed, which is at most
// [Config.MaxTTL]. The second of issue is rounded down, and the last second
// counts whole, so that a client has at least the ttl it was told, and less than
// a second more.
//
// The errors, in the order of the checks: [ErrMalformed] on the spelling alone;
// [ErrForged]; [ErrExpired], with Receipt.Issued if it is [ErrAhead]; ErrMalformed again for a signed challenge outside
// the bounds of this version; [ErrBinding]; [ErrWrong]. No step costs more than
// one MAC of a few hundred bytes (one for each key with the same kid), whatever
// was sent; no step computes a puzzle; none allocates once the issuer is warm.
//
// It keeps no record: the same proof is accepted again until [Receipt.Expires].
func (is *Issuer) Verify(now time.Time, b Binding, proof string) (Receipt, error) {
	if len(proof) > maxProofLen {
		return Receipt{}, errLong
	}
	text, answers, ok := strings.Cut(proof, "~")
	if !ok {
		return Receipt{}, errNoTilde
	}
	w := is.ring.get()
	defer is.ring.put(w)

	// What can be refused without a key is refused first, and for nothing.
	var h header
	raw, err := h.decode(&w.raw, text)
	if err != nil {
		return Receipt{}, err
	}
	if h.k != 0 && h.k != puzzles {
		return Receipt{}, errShape
	}
	got, ok := parseAnswers(answers, h.k)
	if !ok {
		return Receipt{}, errAnswers
	}

	// Nothing of the challenge means anything before this.
	key := w.signer(h.kid, raw)
	if key == nil {
		return Receipt{}, ErrForged
	}
	at := now.Unix()
	if at < int64(h.issued)-ahead {
		return Receipt{Issued: time.Unix(int64(h.issued), 0).UTC()}, ErrAhead
	}
	if at > int64(h.issued)+int64(h.ttl) {
		return Receipt{}, ErrExpired
	}
	// Signed by us, perhaps by a version of us with other bounds.
	if h.ttl < minTTL || h.ttl > is.longest {
		return Receipt{}, errBounds
	}
	if h.k > 0 && (h.span < minSpan || h.span > maxSpan) {
		return Receipt{}, errBounds
	}
	tag := w.tag(key.bind, b)
	if subtle.ConstantTimeCompare(tag[:], h.tag[:]) != 1 {
		return Receipt{}, ErrBinding
	}
	if h.k > 0 {
		want := w.numbers(key, raw[:headerLen], h.span)
		if !equal(&got, &want) {
			return Receipt{}, ErrWrong
		}
	}
	return h.receipt(raw[:headerLen]), nil
}

// signer returns the key that signed raw, or nil. The kid is one byte and is not
// secret; secrets that share it are each tried.
func (w *workspace) signer(kid byte, raw []byte) *states {
	signed, mac := raw[:len(raw)-macLen], raw[len(raw)-macLen:]
	for i := range w.keys {
		key := &w.keys[i]
		if key.kid != kid {
			continue
		}
		if subtle.ConstantTimeCompare(w.hmac(key.mac, signed)[:macLen], mac) == 1 {
			return key
		}
	}
	return nil
}

func (h *header) receipt(raw []byte) Receipt {
	var labelled [len(idLabel) + headerLen]byte
	copy(labelled[copy(labelled[:], idLabel):], raw)
	sum := sha256.Sum256(labelled[:])
	issued := time.Unix(int64(h.issued), 0).UTC()
	return Receipt{
		ID:      [16]byte(sum[:16]),
		Serial:  [6]byte(h.nonce[:]),
		Issued:  issued,
		Expires: issued.Add(seconds(h.ttl) + time.Second),
		Work:    workOf(h.k, h.span),
	}
}
