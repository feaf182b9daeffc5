// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/middleware/internal/ticket"
	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// A subject is who asks, as every step needs it.
type subject struct {
	id       *Identity
	bytes    []byte // of id: no other identity has them
	tier     *tier
	holder   token.Holder
	networks [storeless.MaxNetworks]storeless.Network // a /56 and a /48 if id is an IPv6 address, and room for what a ceiling counts
	dry      bool                                     // nothing is to be charged
	mark     string                                   // of the thing of id; "": none
	block    uint8                                    // of an IPv4 address's ports, from 1; 0 without Challenge.PortBlocks
}

// wide reports whether who is in networks that are limited too.
func (who *subject) wide() bool { return who.networks[0].Policy != nil }

// Credentials are what a request shows for itself. Tokens of one tally are merged.
type credentials struct {
	shared   storeless.Tally
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

// An ownTally is one that was bought.
type ownTally struct {
	own   token.Own
	tally storeless.Tally
	space [1]storeless.Network // for what is counted beside it
}

// A proof is what came of the proofs that a request shows.
type proof struct {
	good   bool             // one was accepted
	opened bool             // it opened own[index], which is to be charged
	index  int              //
	spend  *storeless.Proof // what is spent if the request is admitted; nil without memory
	reason Reason           // why the last one was not accepted

	id       [4]byte   // of the challenge, for the name of its cookie
	byCookie bool      //
	rest     []string  // proofs that nobody has looked at yet
	used     [][4]byte // whose cookies are of no use any more
}

// A roomPass is what a request shows of the waiting room.
type roomPass struct {
	bytes  []byte // of the room's tally
	holder token.Holder
	tally  storeless.Tally
	text   string        // the ticket that opens first, of those that are still good; "": none
	ticket ticket.Ticket // what it says
}

// A charged is which tally was charged, or refused, and how its limits stand.
type charged struct {
	own     *token.Own      // nil: the shared one
	opened  bool            // by a proof of this very request
	shown   storeless.Tally // of what was refused
	tally   storeless.Tally
	verdict storeless.Verdict
	pending *pending // what is charged when the outcome is known; nil: nothing
}

// An exactCall is a request on its way to the counter.
type exactCall struct {
	exact.Call
	refusal  guardedcall.Key     // of whom and what a refusal is about
	fallback storeless.Candidate // what counts while the counter does not answer
}

// addOwn merges what a token or a proof says into the tally of its own, and returns
// the tally's place.
func (c *credentials) addOwn(now time.Time, p *storeless.Policy, own token.Own, t storeless.Tally) int {
	for i := range c.own {
		if o := &c.own[i]; o.own.ID == own.ID {
			o.tally = p.Merge(now, o.tally, t)
			return i
		}
	}
	c.own = append(c.own, ownTally{own: own, tally: t})
	return len(c.own) - 1
}
