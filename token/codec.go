// SPDX-License-Identifier: Apache-2.0

package token

import (
	"errors"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/storeless"
)

// A Codec signs tallies of one policy, and verifies what it has signed. It is immutable and
// safe for concurrent use, and prints without its keys.
type Codec struct{ codec *token.Codec }

// New returns the codec for the tallies of a limiter with the same configuration; of cfg, MaxClients
// says nothing to it. The first secret signs and all verify: see "Rotation". Permitted are 1 to 8 different secrets of at
// least 32 bytes, as openssl rand -base64 32 makes them. A secret that can be guessed, because it repeats itself or holds a
// word such as changeme, is refused, where package middleware, which has a log, warns. New reports all problems at once, each a
// [storeless.ConfigError] without a byte of a secret.
func New(cfg storeless.Config, secrets [][]byte) (*Codec, error) {
	policy, err := limiter.Compile(cfg.Policy, cfg.Limits)
	var codec *token.Codec
	checked := token.CheckSecrets(secrets)
	if policy != nil {
		codec, checked = token.New(secrets, policy)
	}
	if err = errors.Join(err, checked, token.CheckStrength(secrets)); err != nil {
		return nil, limiter.ProblemsAs[storeless.ConfigError](err)
	}
	return &Codec{codec}, nil
}

// Sign returns the token that says what tally the identity has, of at most 512 bytes of a-z, A-Z, 0-9,
// "-", "_" and ".". The same tally of the same identity gives the same token. It is "" where there is nothing to say: the tally is zero,
// and the client drops the token that it has.
func (c *Codec) Sign(identity string, tally storeless.Tally) string {
	h, t := c.codec.Holder([]byte(identity)), limiter.Tally(limiter.StatesAs[limiter.State](tally))
	return string(h.Append(nil, &t))
}

// Verify returns what tok says that the identity has used. For a refused token it returns
// the zero tally and the reason: treat it as if the client had brought none, and do not tell the client the reason. An
// empty tok, from a client that brings none, is [ErrMalformed].
//
// A tally that was bought with work, which package middleware sells, is no tally of an identity: its token is
// refused with [ErrHolder].
func (c *Codec) Verify(now time.Time, identity, tok string) (storeless.Tally, error) {
	h := c.codec.Holder([]byte(identity))
	t, err := h.Verify(now, tok)
	switch {
	case err != nil:
		return storeless.Tally{}, err
	case !t.Own.IsZero():
		return storeless.Tally{}, ErrHolder
	}
	return limiter.StatesAs[storeless.State](t.Tally), nil
}

// Format writes which policy the codec is for, for every verb, so that not even %+v reaches the keys.
func (c Codec) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.codec) }
