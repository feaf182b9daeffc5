// SPDX-License-Identifier: Apache-2.0

package token

import (
	"errors"
	"fmt"
)

// The refusals. A refused token is as if absent, and the client is never told
// which of these it was; they are for tests, logs and metrics.
var (
	// ErrMalformed: not of the length or the form of a window token.
	ErrMalformed = errors.New("token: malformed")

	// ErrForeign: it does not begin as the tokens of any key of this ring and policy do:
	// one of another policy, of a retired secret, or of another kind.
	ErrForeign = errors.New("token: signed by no key of this policy")

	// ErrSecret is the [ErrForeign] of a token that a secret outside of the ring has signed for this
	// policy, as far as can be told without that secret: anybody can write one.
	ErrSecret = fmt.Errorf("%w: by a secret outside of the ring", ErrForeign)

	// ErrForged: the header names one of our keys, the signature is not its.
	ErrForged = errors.New("token: bad signature")

	// ErrExpired: signed by us, but every window it speaks of has passed, or the
	// life of its own tally.
	ErrExpired = errors.New("token: expired")

	// ErrHolder: signed by us for somebody else. A token of an own tally that is
	// not bound is signed for nobody in particular.
	ErrHolder = errors.New("token: held by another identity")
)
