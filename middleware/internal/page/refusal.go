// SPDX-License-Identifier: Apache-2.0

package page

import "time"

// A Refusal is a refused request as its page shows it. The zero value of a field says
// nothing.
type Refusal struct {
	Status int
	Cause  Cause

	// Reason is named to programs. It must need no escaping.
	Reason string

	// Setup says that instances disagree, so that no visitor can do anything.
	Setup bool

	// RetryAfter is how long until the same request would pass: whole seconds.
	RetryAfter time.Duration

	// RoomWait is how long until the waiting room admits the request: whole seconds.
	RoomWait time.Duration

	// Violated are the names of the limits that refused, quoted, those whose bit is set.
	LimitNames []string
	Violated   uint8

	// Challenge can be solved instead of waiting. Base is the path of the endpoints
	// that sell for it.
	Challenge Challenge
	Base      string

	// Script and Style are the URLs of the element, and PageScript of what has it open the
	// page that was asked for. There are none where no cookie would carry what it buys.
	// PageStyle is the URL of the style sheet of the pages; "": none.
	Script, Style, PageScript, PageStyle string

	// Cost is what the request costs.
	Cost int64

	// Embedded permits the page of a form to stand in a frame of another site.
	Embedded bool
}

// A Challenge is a puzzle as clients are told of it.
type Challenge struct {
	Text string        // "": none
	TTL  time.Duration // whole seconds
	Work uint64        // expected hashes
}

// A Cause says what kind of refusal it is.
type Cause uint8

// The causes. All others go by their status alone.
const (
	Other Cause = iota
	ProofRequired
	QuotaExceeded
	CostAboveQuota
	ReducedCapacity
	IdentityUnknown
)

// HasScript reports whether a script can do something for the request: the work, or wait
// for the waiting room where none is for sale.
func (r *Refusal) HasScript() bool {
	return r.Script != "" && (r.Challenge.Text != "" || r.RoomWait > 0)
}

// Wait returns how long a person has to wait without work; 0 if waiting does not help.
func (r *Refusal) Wait() time.Duration {
	if r.RoomWait > 0 && (r.RetryAfter == 0 || r.RoomWait < r.RetryAfter) {
		return r.RoomWait
	}
	return r.RetryAfter
}
