// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"net/http"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/middleware/internal/ticket"
	"github.com/tallystick/tallystick/pow"
)

// The fields of Tallystick, in the spelling of the documentation.
const (
	// TokenHeader carries window tokens, both ways.
	TokenHeader = "Tallystick-Token"

	// ChallengeHeader carries a challenge to the client, ProofHeader its proof
	// back.
	ChallengeHeader = pow.ChallengeField
	ProofHeader     = pow.ProofField
)

// A subject is an identity with all that is compiled or computed of it once for every step.
type subject struct {
	id           *Identity
	bytes        []byte      // of id: no other identity has them
	key          limiter.Key // of its shared tally, where there is memory
	tier         *tier
	holder       token.Holder
	networks     [limiter.MaxNetworks]limiter.Network // a /56 and a /48 if id is an IPv6 address
	waited       bool                                 // for limits of its own: it is later now
	cookiePrefix string                               // of the scope of id; "": none
}

// wide reports whether a subject is in networks that are limited too.
func (who *subject) wide() bool { return who.networks[0].Policy != nil }

// Credentials are what a request shows for itself. Tokens of one tally are merged.
type credentials struct {
	shared   limiter.Tally
	own      []ownTally
	proof    proof
	accepted int
	macs     int // that were computed
	byHeader bool
	byCookie bool
	outside  bool        // of HTTP: there are no cookies
	fields   http.Header // of the request; nil outside
	fault    tokenFault  // of the last token that was not accepted

	// Values of the cookies that carry proofs, and passes of the waiting room: unread.
	proofCookies, roomCookies []string
}

// good reports whether a token or a proof is accepted.
func (c *credentials) good() bool { return c.accepted > 0 || c.proof.good }

// An ownTally was bought.
type ownTally struct {
	own   token.Own
	tally limiter.Tally
}

// A proof sums up the proofs that a request shows: one is redeemed, and the others have left
// a reason at most.
type proof struct {
	good   bool           // one was accepted
	opened bool           // it opened own[index], which is to be charged
	index  int            //
	spend  *limiter.Proof // what is spent if the request is admitted; nil without memory
	reason Reason         // why the last one was not accepted
	busy   bool           // one has waited for peers in vain, and stays good

	id       [4]byte   // of the challenge, for the name of its cookie
	byCookie bool      //
	rest     []string  // proofs not looked at yet
	used     [][4]byte // whose cookies are of no use any more
}

// A roomPass admits to the waiting room, once its ticket has opened.
type roomPass struct {
	bytes  []byte // of the room's tally
	holder token.Holder
	tally  limiter.Tally
	text   string        // the ticket that opens first, of those that are still good; "": none
	ticket ticket.Ticket // what it says
}

// A charged tally, or one that was refused, with how its limits stand.
type charged struct {
	own        *token.Own    // nil: the shared one
	opened     bool          // by a proof of this very request
	shown      limiter.Tally // of what was refused
	tally      limiter.Tally
	verdict    limiter.Verdict
	heldCharge *heldCharge // what is charged when the outcome is known; nil: nothing
}

// An exactCall is a request on its way to the counter.
type exactCall struct {
	exact.Call
	refusal  guardedcall.Key   // the client and the limits that a refusal is about
	fallback limiter.Candidate // what counts while the counter does not answer
}

// addOwn merges what a token or a proof says into the tally of its own, and returns
// the tally's index.
func (c *credentials) addOwn(now time.Time, p *limiter.Policy, own token.Own, t limiter.Tally) int {
	for i := range c.own {
		if o := &c.own[i]; o.own.ID == own.ID {
			o.tally = p.Merge(now, o.tally, t)
			return i
		}
	}
	c.own = append(c.own, ownTally{own: own, tally: t})
	return len(c.own) - 1
}

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
		return proofSecretUnknown
	case tokenExpired, tokenLate:
		return proofClockDiffers
	}
	return ""
}
