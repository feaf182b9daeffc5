// SPDX-License-Identifier: Apache-2.0

package token

import (
	"github.com/golang-jwt/jwt/v5"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/storeless"
)

// Why a token was refused: what Decision.TokenErr of package middleware is. A refused token is as if
// absent, and the client is never told which of these it was; they are for tests, logs and metrics.
var (
	// ErrMalformed: not of the length or the form of a window token.
	ErrMalformed = token.ErrMalformed

	// ErrForeign: it does not begin as the tokens of any key of this ring and policy do:
	// one of another policy, of a retired secret, or of another kind.
	ErrForeign = token.ErrForeign

	// ErrSecret is the [ErrForeign] of a token that a secret outside of the ring has signed for this
	// policy, as far as can be told without that secret: such a token is easy to forge.
	ErrSecret = token.ErrSecret

	// ErrForged: the header names one of our keys, the signature is not its.
	ErrForged = token.ErrForged

	// ErrExpired: signed by us, but every window it speaks of has passed, or the
	// life of its own tally.
	ErrExpired = token.ErrExpired

	// ErrHolder: signed by us for another client. A token of an own tally that is
	// not bound has no holder.
	ErrHolder = token.ErrHolder
)

// Keyfunc returns the key function with which stock golang-jwt verifies the
// window tokens of a policy, for services that want to read what a client has
// used. Parse with claims of your own, and with
//
//	jwt.WithValidMethods([]string{"HS256"}), jwt.WithAudience(policy), jwt.WithExpirationRequired()
//
// and remember that a token proves what was counted, not that nothing was
// counted since: an older token of the same client verifies as well. A
// program that holds the secrets can also sign. It reports all problems of the secrets, each a
// [github.com/tallystick/tallystick/storeless.ConfigError].
func Keyfunc(policy string, secrets [][]byte) (jwt.Keyfunc, error) {
	key, err := token.KeyOf(policy, secrets)
	if err != nil {
		return nil, limiter.ProblemsAs[storeless.ConfigError](err)
	}
	return func(t *jwt.Token) (any, error) { return key(t.Header) }, nil
}
