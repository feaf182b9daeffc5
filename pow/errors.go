// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"errors"
	"fmt"
)

// The refusals. Compare with [errors.Is]: some carry detail for a log. The
// detail never depends on a secret, but a server has no reason to tell a client
// more than "here is a fresh challenge".
var (
	// ErrMalformed: not a challenge or a proof in the one accepted spelling, or
	// one with parameters that this version does not issue.
	ErrMalformed = errors.New("pow: malformed")
	// ErrForged: no key of the ring signed the challenge.
	ErrForged = errors.New("pow: challenge not signed by a key of the ring")
	// ErrExpired: now is outside the challenge's lifetime, on either side.
	ErrExpired = errors.New("pow: challenge outside its lifetime")
	// ErrAhead is the [ErrExpired] of a challenge that is signed by a key of the ring and issued more
	// than 2 s after now: one of two clocks is wrong, and no client can make one up.
	ErrAhead = fmt.Errorf("%w: issued after now", ErrExpired)
	// ErrBinding: the challenge was issued to another client, route or tier. An
	// honest client meets it when its network changes.
	ErrBinding = errors.New("pow: challenge bound to another client, route or tier")
	// ErrWrong: the challenge is good and at least one answer is not. Which one
	// is not told: that would let a guesser work on the puzzles one by one.
	ErrWrong = errors.New("pow: wrong answers")
	// ErrTooMuchWork: the challenge asks for more than the solver's cap.
	ErrTooMuchWork = errors.New("pow: challenge asks for too much work")
	// ErrUnsolvable: no number in range fits, so the challenge is not one that
	// an [Issuer] made.
	ErrUnsolvable = errors.New("pow: challenge without an answer")
)

// Details are built once: a refusal must not allocate, or a flood of bad proofs
// becomes a flood of garbage.
var (
	errLong     = fmt.Errorf("%w: longer than %d bytes", ErrMalformed, maxProofLen)
	errNoTilde  = fmt.Errorf("%w: proof is not <challenge>~<answers>", ErrMalformed)
	errAlphabet = fmt.Errorf("%w: challenge is not base64url without padding", ErrMalformed)
	errVersion  = fmt.Errorf("%w: unknown version or algorithm", ErrMalformed)
	errShape    = fmt.Errorf("%w: challenge length and puzzle count disagree", ErrMalformed)
	errBounds   = fmt.Errorf("%w: signed, but outside the bounds of this version", ErrMalformed)
	errAnswers  = fmt.Errorf("%w: answers are not the expected count of canonical decimals", ErrMalformed)
)
