// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// A Config holds what both ends agree on. It is plain data.
type Config struct {
	_ [0]func() // fields may be added: only keyed literals, no comparison

	// Secrets authenticate calls and answers: the first signs, all verify. To rotate, add the
	// new one last at every end, then move it first, then drop the old one. Permitted: 1 to
	// 4 of at least 32 random bytes. Required.
	Secrets [][]byte

	// Transport makes the requests of [Open]. Default: one of its own, which keeps up to 64
	// idle connections to each owner, and knows no proxies.
	Transport http.RoundTripper

	// Logger is told by [Serve] of callers with other secrets. Default: slog.Default().
	Logger *slog.Logger

	// Now is the clock by which calls are told from recorded ones, [time.Now] by default. It need
	// not agree with the owners' clocks: their answers say what time it is.
	Now func() time.Time
}

// Format writes no more than the package's name, so that no log of a Config shows its Secrets.
func (c Config) Format(f fmt.State, _ rune) { fmt.Fprint(f, "remote.Config") }

const (
	minSecret  = 32
	maxSecrets = 4
)

// check reports all problems of c.
func (c *Config) check() (errs []error) {
	if len(c.Secrets) < 1 || len(c.Secrets) > maxSecrets {
		errs = append(errs, &storeless.ConfigError{Field: "Secrets", Problem: fmt.Sprintf("must be 1 to %d, not %d", maxSecrets, len(c.Secrets))})
	}
	for i, secret := range c.Secrets {
		if len(secret) < minSecret {
			errs = append(errs, &storeless.ConfigError{Field: fmt.Sprintf("Secrets[%d]", i), Problem: fmt.Sprintf("must be at least %d random bytes, not %d: `openssl rand -base64 32` makes one", minSecret, len(secret))})
		}
	}
	return errs
}

func (c *Config) clock() func() time.Time {
	if c.Now == nil {
		return time.Now
	}
	return c.Now
}
