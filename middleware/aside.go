// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/middleware/internal/page"
	"github.com/tallystick/tallystick/middleware/internal/slots"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/storeless"
)

// An aside is what few decisions have.
type aside struct {
	exceptions
	refusal *page.Refusal // what an Interstitial tells
	cookies []string      // that go out beside the token's: of the waiting room, and of spent proofs
	place   *slots.Place  // of a request that is being served, where there is a Concurrency
	counted *counted      // on an exact route; nil: nothing was
	pending *pending      // what is charged when the outcome is known; nil: nothing
}

// A counted is what an exact counter has charged for a request.
type counted struct {
	call    exact.Call
	receipt exact.Receipt // zero where the counter did not answer
	refusal guardedcall.Key
	lost    bool // an answer: it may have been given back
}

// The exceptions of a record are what few decisions have.
type exceptions struct {
	IdentityErr error
	Proof       Reason
	Offered     *pow.Challenge
	RoomWait    time.Duration
	Inherited   int64
	call        CounterCall
	took        time.Duration                                 // of the call, in whole microseconds
	others      [storeless.MaxLimits - fewLimits]packedStatus // of the limits after the first
}

// fewLimits is how many limits most policies have at most.
const fewLimits = 2
