// SPDX-License-Identifier: Apache-2.0

package middleware

import "github.com/tallystick/tallystick/token"

// A tokenFault says what is wrong with a token, in a byte.
type tokenFault uint8

const (
	tokenSound tokenFault = iota
	tokenMalformed
	tokenForeign
	tokenSecret
	tokenForged
	tokenExpired
	tokenHolder
	tokenLate // it would live for longer than what is sold here
)

// tokenErrs are what the faults are to programs.
var tokenErrs = [...]error{
	tokenMalformed: token.ErrMalformed,
	tokenForeign:   token.ErrForeign,
	tokenSecret:    token.ErrSecret,
	tokenForged:    token.ErrForged,
	tokenExpired:   token.ErrExpired,
	tokenHolder:    token.ErrHolder,
	tokenLate:      token.ErrHolder,
}

// faultOf returns what err, of [token.Holder.Verify], says.
func faultOf(err error) tokenFault {
	for f, known := range tokenErrs {
		if err == known {
			return tokenFault(f)
		}
	}
	return tokenMalformed
}

func (f tokenFault) err() error { return tokenErrs[f] }

// signed reports whether it took a MAC to find that out.
func (f tokenFault) signed() bool { return f == tokenSound || f >= tokenForged }

// instances names what instances disagree about where a token that was just bought is not
// believed, as far as that is the reason.
func (f tokenFault) instances() Reason {
	switch f {
	case tokenSecret:
		return ProofSecretUnknown
	case tokenExpired, tokenLate:
		return ProofClockDiffers
	}
	return ""
}
