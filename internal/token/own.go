// SPDX-License-Identifier: Apache-2.0

package token

import "github.com/tallystick/tallystick/internal/limiter"

// A Token is a verified window token.
type Token struct {
	Expires int64 // Unix seconds
	Tally   limiter.Tally

	// Own is the own tally that the token belongs to; zero for the holder's
	// shared tally.
	Own Own
}

// An Own is an own tally, as its challenge made it.
type Own struct {
	ID      [6]byte // the serial of its challenge
	Expires int64   // the end of the tally's life, in Unix seconds
	Bound   bool    // its tokens are good only for the holder that bought it
}

// IsZero reports whether o is no tally: one that never ends is none.
func (o Own) IsZero() bool { return o.Expires == 0 }
