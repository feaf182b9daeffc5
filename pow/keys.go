// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/internal/span"
)

// The limits of a ring.
const (
	minSecret  = 32 // bytes: the strength of HMAC-SHA-256 (RFC 2104, section 3)
	maxSecrets = 8
)

// Config configures an [Issuer]. Formatted or marshalled it shows how
// many secrets it has and nothing of them; but package fmt calls no method of
// what lies in an unexported field, so do not print what you hide a Config in.
type Config struct {
	_ [0]func() // fields may be added: only keyed literals, no comparison

	// Secrets is the ring: 1 to 8 distinct secrets of at least 32 random bytes.
	// The first signs, all verify, so a new secret is first added at the end
	// everywhere, then moved to the front, and the old one is removed MaxTTL
	// later. New keeps derived keys only, never these slices.
	Secrets [][]byte

	// MaxTTL is the longest life of a challenge, however dear it is: New's issuer
	// issues none that lives longer, and accepts none. Long lives let slow clients pay
	// a high price, and let stocks of answers lie. Default: 60 s. Permitted: whole
	// seconds, from 10 s to 5 min.
	MaxTTL time.Duration
}

// Format implements [fmt.Formatter] for every verb.
func (c Config) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "pow.Config{%d secrets}", len(c.Secrets))
}

// MarshalText keeps secrets out of encoding/json and log/slog.
func (c Config) MarshalText() ([]byte, error) { return fmt.Append(nil, c), nil }

// check reports every problem at once, of secrets by place and never by value.
func (c Config) check() error {
	var problems []error
	if n := len(c.Secrets); n < 1 || n > maxSecrets {
		problems = append(problems, fmt.Errorf("pow: Config.Secrets: %d secrets, want 1 to %d", n, maxSecrets))
	}
	for i, s := range c.Secrets {
		if len(s) < minSecret {
			problems = append(problems, fmt.Errorf("pow: Config.Secrets[%d]: %d bytes, want at least %d", i, len(s), minSecret))
		}
		if len(s) >= minSecret && len(bytes.TrimLeft(s, "\x00")) == 0 {
			problems = append(problems, fmt.Errorf("pow: Config.Secrets[%d]: all zeros; fill it from crypto/rand", i))
		}
		for j := range i {
			if bytes.Equal(s, c.Secrets[j]) {
				problems = append(problems, fmt.Errorf("pow: Config.Secrets[%d]: repeats Config.Secrets[%d]", i, j))
				break
			}
		}
	}
	if c.MaxTTL != 0 && (c.MaxTTL < minTTL*time.Second || c.MaxTTL > maxTTL*time.Second || c.MaxTTL%time.Second != 0) {
		problems = append(problems, fmt.Errorf("pow: Config.MaxTTL: %s, want whole seconds from %s to %s, or 0 for %s", span.Text(c.MaxTTL), span.Text(minTTL*time.Second), span.Text(maxTTL*time.Second), span.Text(defaultTTL*time.Second)))
	}
	return errors.Join(problems...)
}

// subkeys are derived from one secret, one key for each purpose: a MAC of
// one kind must never be of use as a MAC of another (here: of a window token, a
// binding, or the hidden numbers).
type subkeys struct {
	kid            byte
	mac, num, bind []byte
}

// derive expands a secret. The labels carry the version of what they key, so a
// second version of the format starts from unrelated keys.
func derive(secret []byte) (subkeys, error) {
	var failed error
	key := func(purpose string, size int) []byte {
		k, err := hkdf.Key(sha256.New, secret, nil, "tallystick/pow/"+purpose+"/1", size)
		if err != nil {
			failed = fmt.Errorf("pow: deriving the %s key: %w", purpose, err)
			return make([]byte, size)
		}
		return k
	}
	return subkeys{
		kid:  key("kid", 1)[0],
		mac:  key("mac", sha256.Size),
		num:  key("num", sha256.Size),
		bind: key("bind", sha256.Size),
	}, failed
}
