// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
)

// A Codec signs and verifies the window tokens of one policy. It is immutable
// and safe for concurrent use.
type Codec struct {
	ring   []*key // pointers: what fmt prints by reflection, it does not follow
	format format
}

// New returns the codec for a policy. The first secret signs, all verify: to
// rotate, add the new secret last everywhere, then move it first everywhere,
// then drop the old one when its last token has expired: see "Rotation" in the
// documentation of the public package.
//
// It reports all problems at once, each a [limiter.Problem] without a
// byte of a secret: the problems that [CheckSecrets] finds, and a policy whose fullest token
// would be longer than [MaxLen]. tiers are further policies of the same shape
// whose quotas tokens may carry.
func New(secrets [][]byte, policy *limiter.Policy, tiers ...*limiter.Policy) (*Codec, error) {
	ring, err := newRing(policy.Name(), secrets)
	errs := []error{err}
	problem := limiter.Noting(&errs, "")
	c := &Codec{
		ring:   ring,
		format: newFormat(policy),
	}
	policies := []*limiter.Policy{policy}
	for i, tier := range tiers {
		if !tier.SameShape(policy) {
			problem(fmt.Sprintf("Tiers[%d]", i), "must have the limits of policy %s in the same order, and may differ in quota and burst", policy.Name())
			continue
		}
		policies = append(policies, tier)
	}
	if n := c.format.longest(policies); n > MaxLen {
		problem("Limits", "a full token would have %d bytes, %d at most; use fewer limits, lower quotas or a shorter policy name", n, MaxLen)
	}
	if err = errors.Join(errs...); err == nil {
		err = c.selfCheck()
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Carries reports whether the fullest token that each of policies can make fits [MaxLen]. They
// must have the shape of the codec's policy.
func (c *Codec) Carries(policies ...*limiter.Policy) bool {
	return c.format.longest(policies) <= MaxLen
}

// A Holder is one identity, as tokens know it.
type Holder struct {
	codec    *Codec
	identity []byte
	named    bool             // what follows is computed
	subject  [subjectLen]byte // under the key that signs
	start    [startMax]byte   // of the payloads of its shared tally, after lead, encoded
}

// Holder returns the holder with the given identity: any bytes that no other
// identity has. They are hashed under a key of their own, and must not change
// while the holder is in use.
func (c *Codec) Holder(identity []byte) Holder { return Holder{codec: c, identity: identity} }

// name computes what tokens say of the holder, once one is signed or verified.
func (h *Holder) name() {
	if !h.named {
		h.named, h.subject = true, h.codec.ring[0].subject(h.identity)
		h.codec.format.encodeStart(h.start[:], h.subject[:])
	}
}

// Format writes the holder's policy for every verb: an identity may be an
// address or an API key, and does not belong in a log.
func (h Holder) Format(f fmt.State, _ rune) {
	fmt.Fprint(f, "token.Holder("+h.codec.format.policy.Name()+")")
}

// subject returns a keyed hash of the identity. Two identities share a subject with a
// chance of 2⁻⁴⁸, and then would take each other's tokens, which neither shows. See
// "Subjects" in the package documentation.
func (k *key) subject(identity []byte) (sub [subjectLen]byte) {
	sum := k.bind.Sum(identity)
	base64.RawURLEncoding.Encode(sub[:], sum[:subjectLen/4*3])
	return sub
}

// Append appends to dst the token that says t of the holder's shared tally, and
// returns the extended slice. The same holder and tally give the same bytes. It
// appends nothing if t has counted nothing, or if its counts, made under far
// larger quotas, no longer fit [MaxLen].
func (h *Holder) Append(dst []byte, t *limiter.Tally) []byte {
	return h.append(dst, Own{}, h.codec.format.policy.Expires(t), t)
}

// AppendOwn is [Holder.Append] for a tally of the holder's own. A token that has
// counted nothing is its first, and worth having: it says that the tally exists.
// Nothing in it depends on when it is made, so that redeeming a challenge twice
// gives the same bytes.
//
// It appends nothing if own ends outside of 1970 to 2242, as the zero Own does, or
// if t, made under far larger quotas or longer windows, no longer fits [MaxLen].
func (h *Holder) AppendOwn(dst []byte, own Own, t *limiter.Tally) []byte {
	return h.append(dst, own, own.Expires, t)
}

func (h *Holder) append(dst []byte, own Own, exp int64, t *limiter.Tally) []byte {
	if exp < 1 || exp > maxExpires {
		return dst // Verify would not take it
	}
	h.name()
	fm := &h.codec.format
	k := h.codec.ring[0]
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)

	text := append(append(s.text[:0], k.fixed...), fm.lead...)
	json := s.json[:0]
	if own.Expires == 0 {
		text = append(text, h.start[:fm.startLen]...)
		json = append(json, fm.startRest...)
	} else {
		json = fm.appendOwnStart(json, h.subject[:], own)
	}
	json = fm.appendCounts(json, exp, t)
	if len(text)+base64.RawURLEncoding.EncodedLen(len(json)) > payloadAt+payloadMax {
		return dst
	}
	text = base64.RawURLEncoding.AppendEncode(text, json)
	sum := s.authenticate(&k.sign, text[fixedLen:])
	text = base64.RawURLEncoding.AppendEncode(append(text, '.'), sum)
	return append(dst, text...)
}

// Verify returns what tok says, or why it says nothing: [ErrMalformed],
// [ErrForeign] (perhaps [ErrSecret]), [ErrForged], [ErrExpired] or [ErrHolder], in this order, the
// cheapest refusal first. Nothing of the token is decoded or parsed before its
// MAC has been found good, and nothing that our keys did not sign makes Verify do
// more than one MAC of MaxLen bytes. (A token of an older key takes one more hash,
// of the identity.)
//
// A token of an own tally that is not bound is good for every holder: a program that
// needs more than that looks at Token.Own.
func (h *Holder) Verify(now time.Time, tok string) (t Token, err error) {
	c := h.codec
	k, err := c.glance(tok)
	if err != nil {
		return Token{}, err
	}
	h.name()
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)

	n := copy(s.text[:], tok[fixedLen:])
	payload, signature := s.text[:n-signatureLen-1], s.text[n-signatureLen:n]
	// The MAC is compared as it is spelled. A token therefore has one spelling,
	// where decoders take four, and the character set needs no check of its own:
	// what passes is what we wrote.
	var want [signatureLen]byte
	base64.RawURLEncoding.Encode(want[:], s.authenticate(&k.sign, payload))
	if subtle.ConstantTimeCompare(want[:], signature) != 1 {
		return Token{}, ErrForged
	}
	if len(payload) < len(c.format.lead) || string(payload[:len(c.format.lead)]) != c.format.lead {
		return Token{}, ErrMalformed // signed by our key, but not by this package
	}
	payload = payload[len(c.format.lead):]
	// Nearly all tokens are of the holder's own shared tally, and begin with what it begins
	// with: that much is compared and not decoded.
	mine := c.format.startLen
	if k != c.ring[0] || len(payload) < mine || string(payload[:mine]) != string(h.start[:mine]) {
		mine = 0
	}
	size, err := strict.Decode(s.json[:], payload[mine:])
	if err != nil || base64.RawURLEncoding.EncodedLen(size) != len(payload)-mine {
		return Token{}, ErrMalformed
	}
	p := parser{rest: s.json[:size], ok: true}
	var subject []byte
	own := false
	if mine > 0 {
		p.expect(c.format.startRest)
	} else {
		subject, own = c.format.parseStart(&p, &t)
	}
	if !c.format.parseCounts(&p, &t, own) {
		return Token{}, ErrMalformed
	}
	if t.Expires <= now.Unix() {
		return Token{}, ErrExpired
	}
	if mine > 0 || subject == nil {
		return t, nil // the holder's, or an own tally, good for every client that shows it
	}
	holder := h.subject
	if k != c.ring[0] {
		// The subject of an older key: rotation must change no client's tally.
		holder = k.subject(h.identity)
	}
	if subtle.ConstantTimeCompare(holder[:], subject) != 1 {
		return Token{}, ErrHolder
	}
	return t, nil
}

// Glance returns why [Holder.Verify] refuses tok at first sight: a client of a stack shows the tokens of all its policies
// to each of them. Otherwise it returns what follows in tok after the start that all tokens of the key that signs have in
// common, or "" if tok begins otherwise.
func (c *Codec) Glance(tok string) (rest string, err error) {
	k, err := c.glance(tok)
	if k != c.ring[0] || !strings.HasPrefix(tok[fixedLen:], c.format.lead) {
		return "", err
	}
	return tok[fixedLen+len(c.format.lead):], nil
}

// Rest is the rest of [Codec.Glance] for a token that the codec has just signed, or "".
func (c *Codec) Rest(tok string) string { return tok[min(len(tok), fixedLen+len(c.format.lead)):] }

// glance returns the key whose token tok may be, or why it is none of this policy.
func (c *Codec) glance(tok string) (*key, error) {
	if len(tok) < minLen || len(tok) > MaxLen || tok[len(tok)-signatureLen-1] != '.' {
		return nil, ErrMalformed
	}
	// Byte for byte: no algorithm, type or parameter is left to choose, and
	// none to parse (RFC 8725 section 3.1).
	fixed := tok[:fixedLen]
	for _, k := range c.ring {
		if k.fixed == fixed {
			return k, nil
		}
	}
	// A token of this policy by another secret differs in the key id alone, as far as can be seen without a key. What is compared
	// goes beyond the quote that ends the policy's name, so a policy whose name goes on is another.
	if ours := c.ring[0].fixed; strings.HasPrefix(tok[fixedLen:], c.format.lead) && fixed[:kidAt] == ours[:kidAt] && fixed[kidEnd:] == ours[kidEnd:] {
		return nil, ErrSecret
	}
	return nil, ErrForeign
}

// KeyIDs returns the key ids of the ring, in its order: the kid in the header of every token. They
// are public, and tell which secrets an instance has without a byte of them.
func (c *Codec) KeyIDs() []string {
	ids := make([]string, len(c.ring))
	for i, k := range c.ring {
		ids[i] = k.kid
	}
	return ids
}

// Format writes which policy the codec is for, for every verb, so that not even %+v
// reaches the keys.
func (c Codec) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "token.Codec(%s)", c.format.policy.Name())
}

// selfCheck signs a token of each kind by ourselves and by crypto/hmac, and compares: the definition and
// its shortcut must agree in this very build, or nothing starts. The tests of this package hold both equal
// to golang-jwt, which programs link only if they read tokens with it.
func (c *Codec) selfCheck() error {
	holder := c.Holder([]byte("self-check"))
	now := time.Unix(1<<31, 0)
	tally, _ := c.format.policy.Step(now, limiter.Tally{}, 1)
	exp := c.format.policy.Expires(&tally)
	for _, own := range []Own{{}, {Expires: exp}, {Expires: exp, Bound: true}} {
		token := string(holder.append(nil, own, exp, &tally))
		message := token[:strings.LastIndexByte(token, '.')]
		mac := hmac.New(sha256.New, c.ring[0].window)
		mac.Write([]byte(message))
		if want := message + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)); token != want {
			return errors.New("token: crypto/hmac signs a different token than we do; do not use this build")
		}
	}
	return nil
}
