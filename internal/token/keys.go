// SPDX-License-Identifier: Apache-2.0

package token

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/siphash"
)

const (
	// MinSecret is the least length of a secret in bytes. RFC 7518 section 3.2
	// wants an HS256 key no shorter than the hash.
	MinSecret = 32

	// MaxSecrets is how many secrets a ring may have: one that signs, one being
	// retired, one being introduced, and room to be late.
	MaxSecrets = 8
)

// kidLen makes the header 42 bytes of JSON, 56 characters in base64: with its dot and the
// seven that every payload begins with, exactly one SHA-256 block. Four characters are 24
// bits. Fewer would do for a ring, which is checked. But clients and stacked limiters tell
// the tokens of several policies by their headers, and nothing checks those.
const kidLen = 4

// typ is the explicit type that RFC 8725 section 3.11 asks for, with the suffix that it
// recommends. A change of format is a new type, never a negotiation: tokens of the former
// format were "tally+jwt", with a kid of five characters and a longer subject, and are
// foreign here, as these are there.
const typ = "t+jwt"

// A key is derived from one secret for one policy.
type key struct {
	window []byte // the HS256 key, for readers of tokens
	kid    string
	fixed  string      // what each of its tokens begins with, fixedLen characters: one SHA-256 block
	sign   mac         // HMAC under window, with fixed absorbed
	bind   siphash.Key // of subjects
}

// newRing checks secrets and derives their keys for a policy. A problem never
// shows a byte of a secret.
func newRing(policy string, secrets [][]byte) ([]*key, error) {
	if err := CheckSecrets(secrets); err != nil {
		return nil, err
	}
	ring := make([]*key, len(secrets))
	for i, secret := range secrets {
		ring[i] = deriveKey(policy, secret)
		for j := range i {
			if ring[j].kid == ring[i].kid { // 2⁻²⁴ for a pair of good secrets
				return nil, secretProblem(i, "has the same key id as Secrets[%d] for this policy; replace one", j)
			}
		}
	}
	return ring, nil
}

// KeyOf returns a function that finds the HS256 key of a window token of a policy by its header, for
// programs that verify tokens by a library of their own.
func KeyOf(policy string, secrets [][]byte) (func(header map[string]any) ([]byte, error), error) {
	ring, err := newRing(policy, secrets)
	if err != nil {
		return nil, err
	}
	return func(header map[string]any) ([]byte, error) {
		if header["alg"] != "HS256" || header["typ"] != typ {
			return nil, fmt.Errorf("%w: not a window token", ErrMalformed)
		}
		kid, _ := header["kid"].(string)
		for i := range ring {
			if subtle.ConstantTimeCompare([]byte(kid), []byte(ring[i].kid)) == 1 {
				return ring[i].window, nil
			}
		}
		return nil, ErrForeign
	}, nil
}

// CheckSecrets reports all problems of a ring of secrets, each a
// [limiter.Problem] whose Field is "Secrets" or "Secrets[i]". Permitted:
// 1 to [MaxSecrets] different secrets of at least [MinSecret] bytes. Fill them
// from crypto/rand, as with "openssl rand 32".
func CheckSecrets(secrets [][]byte) error {
	var errs []error
	if len(secrets) == 0 {
		errs = append(errs, &limiter.Problem{Field: "Secrets", Problem: fmt.Sprintf("at least one secret of %d random bytes is needed", MinSecret)})
	}
	if len(secrets) > MaxSecrets {
		errs = append(errs, &limiter.Problem{Field: "Secrets", Problem: fmt.Sprintf("at most %d, not %d; retire the old ones", MaxSecrets, len(secrets))})
	}
	for i, secret := range secrets {
		switch {
		case len(secret) == 0:
			errs = append(errs, secretProblem(i, "is empty: is the variable set? `openssl rand -base64 32` makes one"))
		case len(secret) < MinSecret:
			errs = append(errs, secretProblem(i, "must be at least %d random bytes, not %d: `openssl rand -base64 32` makes one", MinSecret, len(secret)))
		case len(bytes.TrimLeft(secret, "\x00")) == 0:
			errs = append(errs, secretProblem(i, "is all zeros; fill it from crypto/rand"))
		}
		for j := range i {
			if len(secret) > 0 && bytes.Equal(secret, secrets[j]) {
				errs = append(errs, secretProblem(i, "is the same as Secrets[%d]", j))
			}
		}
	}
	return errors.Join(errs...)
}

// Weak reports whether a secret was hardly drawn at random, however long it is: it has fewer than eight different bytes, is
// one piece again and again, or holds a word of placeholders. A random one in base64 holds such a word once in ten
// million times.
func Weak(secret []byte) bool {
	var seen [256]bool
	different := 0
	for _, b := range secret {
		if !seen[b] {
			seen[b] = true
			different++
		}
	}
	if different < 8 {
		return true
	}
	for n := 1; n <= len(secret)/2; n++ {
		if bytes.Equal(secret[n:], secret[:len(secret)-n]) {
			return true
		}
	}
	lower := bytes.ToLower(secret)
	return slices.ContainsFunc([]string{"changeme", "change-me", "change_me", "secret", "password", "placeholder", "01234567", "abcdefgh"},
		func(word string) bool { return bytes.Contains(lower, []byte(word)) })
}

// CheckStrength reports the secrets that are [Weak], for callers that have no log. [CheckSecrets] reports empty ones.
func CheckStrength(secrets [][]byte) error {
	var errs []error
	for i, secret := range secrets {
		if len(secret) >= MinSecret && len(bytes.TrimLeft(secret, "\x00")) > 0 && Weak(secret) {
			errs = append(errs, secretProblem(i, "can be guessed: it has few different bytes, repeats itself, or holds a word of placeholders; `openssl rand -base64 32` makes another"))
		}
	}
	return errors.Join(errs...)
}

func secretProblem(i int, format string, args ...any) error {
	return &limiter.Problem{Field: fmt.Sprintf("Secrets[%d]", i), Problem: fmt.Sprintf(format, args...)}
}

// deriveKey derives by HKDF-SHA256 (RFC 5869), one label for each purpose, so
// that nothing made under one key can be shown where another is expected.
func deriveKey(policy string, secret []byte) *key {
	prk, err := hkdf.Extract(sha256.New, secret, []byte("tallystick/v1"))
	if err != nil {
		panic(err) // only for keys that FIPS mode finds too short; ours are not
	}
	expand := func(purpose string) []byte {
		k, err := hkdf.Expand(sha256.New, prk, "tallystick/v1/"+purpose+"/"+policy, sha256.Size)
		if err != nil {
			panic(err) // only for lengths over 255 hashes
		}
		return k
	}
	k := &key{window: expand("window"), bind: siphash.New([16]byte(expand("bind")[:16]))}
	k.kid = base64.RawURLEncoding.EncodeToString(expand("kid"))[:kidLen]
	k.fixed = fixedStart(k.kid, policy)
	k.sign = newMAC(k.window, k.fixed)
	return k
}

// fixedStart returns what every token of a key begins with. The seven characters after the
// header are a constant of the format, the same for every policy.
func fixedStart(kid, policy string) string {
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"` + kid + `","typ":"` + typ + `"}`))
	opening, _, _ := beginning(policy)
	return header + "." + opening
}
