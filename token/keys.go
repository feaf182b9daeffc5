// SPDX-License-Identifier: Apache-2.0

package token

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/tallystick/tallystick/storeless"
)

const (
	// MinSecret is the least length of a secret in bytes. RFC 7518 section 3.2
	// wants an HS256 key no shorter than the hash.
	MinSecret = 32

	// MaxSecrets is how many secrets a ring may have: one that signs, one being
	// retired, one being introduced, and room to be late.
	MaxSecrets = 8
)

// kidLen makes the encoded header, with its dot, exactly one SHA-256 block.
const kidLen = 5

// typ is the explicit type that RFC 8725 section 3.11 asks for. A change of
// format is a new type, never a negotiation.
const typ = "tally+jwt"

// A key is what one secret becomes for one policy.
type key struct {
	window []byte // the HS256 key, for golang-jwt
	kid    string
	header string // the encoded header and its dot: one SHA-256 block
	sign   mac    // HMAC under window, with header absorbed
	bind   sipKey // of subjects
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
			if ring[j].kid == ring[i].kid { // 2⁻³⁰ for a pair of good secrets
				return nil, secretProblem(i, "has the same key id as Secrets[%d] for this policy; replace one", j)
			}
		}
	}
	return ring, nil
}

// CheckSecrets reports all problems of a ring of secrets, each a
// [storeless.ConfigError] whose Field is "Secrets" or "Secrets[i]". Permitted:
// 1 to [MaxSecrets] different secrets of at least [MinSecret] bytes. Fill them
// from crypto/rand, as with "openssl rand 32".
func CheckSecrets(secrets [][]byte) error {
	var errs []error
	if len(secrets) == 0 {
		errs = append(errs, &storeless.ConfigError{Field: "Secrets", Problem: fmt.Sprintf("at least one secret of %d random bytes is needed", MinSecret)})
	}
	if len(secrets) > MaxSecrets {
		errs = append(errs, &storeless.ConfigError{Field: "Secrets", Problem: fmt.Sprintf("at most %d, not %d; retire the old ones", MaxSecrets, len(secrets))})
	}
	for i, secret := range secrets {
		switch {
		case len(secret) < MinSecret:
			errs = append(errs, secretProblem(i, "must be at least %d random bytes, not %d", MinSecret, len(secret)))
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

func secretProblem(i int, format string, args ...any) error {
	return &storeless.ConfigError{Field: fmt.Sprintf("Secrets[%d]", i), Problem: fmt.Sprintf(format, args...)}
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
	k := &key{window: expand("window"), bind: sipKeyOf([16]byte(expand("bind")[:16]))}
	k.kid = base64.RawURLEncoding.EncodeToString(expand("kid"))[:kidLen]
	k.header = base64.RawURLEncoding.EncodeToString(
		[]byte(`{"alg":"HS256","kid":"`+k.kid+`","typ":"`+typ+`"}`)) + "."
	k.sign = newMAC(k.window, k.header)
	return k
}
