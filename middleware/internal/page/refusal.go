package page

import (
	"strconv"
	"time"
)

// A Refusal is what is told of a refused request. The zero value of a field says
// nothing.
type Refusal struct {
	Status int
	Cause  Cause

	// Reason is named to programs. It must need no escaping.
	Reason string

	// RetryAfter is how long until the same request would pass: whole seconds.
	RetryAfter time.Duration

	// RoomWait is how long until the waiting room admits the request: whole seconds.
	RoomWait time.Duration

	// Violated are the names of the limits that refused, those whose bit is set.
	LimitNames []string
	Violated   uint8

	// Challenge can be solved instead of waiting. Base is the path of the endpoints
	// that sell for it; Script and Style are the URLs of the files below it.
	Challenge           Challenge
	Base, Script, Style string

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

// HasScript reports whether a script can do something for the request.
func (r *Refusal) HasScript() bool { return r.Challenge.Text != "" && r.Base != "" }

// Wait returns how long a person has to wait who does no work; 0 if waiting does not
// help.
func (r *Refusal) Wait() time.Duration {
	if r.RoomWait > 0 && (r.RetryAfter == 0 || r.RoomWait < r.RetryAfter) {
		return r.RoomWait
	}
	return r.RetryAfter
}

// appendWait says how long to wait, in the largest unit that does not mislead.
func appendWait(b []byte, wait time.Duration) []byte {
	n, unit := int64(wait/time.Second), "second"
	switch {
	case wait >= 48*time.Hour:
		n, unit = int64((wait+24*time.Hour-1)/(24*time.Hour)), "day"
	case wait >= 2*time.Hour:
		n, unit = int64((wait+time.Hour-1)/time.Hour), "hour"
	case wait >= 2*time.Minute:
		n, unit = int64((wait+time.Minute-1)/time.Minute), "minute"
	}
	b = append(b, "Try again in "...)
	b = strconv.AppendInt(b, n, 10)
	b = append(b, ' ')
	b = append(b, unit...)
	if n != 1 {
		b = append(b, 's')
	}
	return append(b, '.')
}
