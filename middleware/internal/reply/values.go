// SPDX-License-Identifier: Apache-2.0

package reply

import "sync/atomic"

// The response fields, in net/http's canonical spelling, so that they are set
// without a search for capitals. Field names are case-insensitive.
const (
	policyField    = "Ratelimit-Policy"
	rateLimitField = "Ratelimit"
	retryField     = "Retry-After"

	TokenField     = "Tallystick-Token"
	ChallengeField = "Tallystick-Challenge"
	DegradedField  = "Tallystick-Degraded"
	SetCookie      = "Set-Cookie"
	CacheControl   = "Cache-Control"
)

// The fields that a decision may add, in the order in which they are set.
// Set-Cookie is apart: others may add cookies, and it is never replaced.
const (
	Policy = iota
	RateLimit
	Token
	Cache
	Retry
	numFields

	listed = Token + 1 // the fields before are lists: each policy of a stack adds a line
)

// Fields of few decisions: refusals, outages, and fields that are not the default. None is a
// list: in a stack the innermost wins.
const (
	Challenge = iota
	Degraded
	XLimit
	XRemaining
	XReset
	numMore
)

var names = [numFields + numMore]string{
	Policy:    policyField,
	RateLimit: rateLimitField,
	Token:     TokenField,
	Cache:     CacheControl,
	Retry:     retryField,

	numFields + Challenge:  ChallengeField,
	numFields + Degraded:   DegradedField,
	numFields + XLimit:     "X-Ratelimit-Limit",
	numFields + XRemaining: "X-Ratelimit-Remaining",
	numFields + XReset:     "X-Ratelimit-Reset",
}

// MoreLines are the values of the fields that few decisions have.
type MoreLines [numMore]string

// Values are what a decision adds to the response; "" is not sent. They are kept,
// because a handler may wipe them from the header map before it writes.
type Values struct {
	Lines  [numFields]string // one for each field
	More   *MoreLines        // nil for most
	Cookie string            // of the token, or of the pass that has admitted
}

// Other sets one of the fields that few decisions have; "" is not sent.
func (v *Values) Other(i int, line string) {
	if line == "" {
		return
	}
	if v.More == nil {
		v.More = new(MoreLines)
	}
	v.More[i] = line
}

// value returns the value of a field; "" is not sent.
func (v *Values) value(i int) string {
	switch {
	case i < numFields:
		return v.Lines[i]
	case v.More != nil:
		return v.More[i-numFields]
	}
	return ""
}

// line returns what is sent of a field; nothing fits behind it.
func (v *Values) line(i int) []string {
	if i < numFields {
		return one(v.Lines[:], i)
	}
	if v.More == nil {
		return nil
	}
	return one(v.More[:], i-numFields)
}

func one(lines []string, i int) []string {
	if lines[i] == "" {
		return nil
	}
	return lines[i : i+1 : i+1]
}

// Fields are the values of a decision within a stack. They do not change once the
// handler runs. Later values are put beside them: http.TimeoutHandler may have left
// a handler behind that still refunds while the response is written.
type Fields struct {
	Values
	reissued  atomic.Pointer[Values] // in their place; nil: none
	Paid      bool                   // the token was bought with this very request
	ahead     bool                   // they were set before the handler ran
	counts    uint16                 // of what lists has, four bits each
	finalized atomic.Bool            // they are what they are: the header is being written
	Now       int64                  // of the request, in µs since 1970

	// Where several middlewares are stacked, each must know of the others: see Within. inner is
	// atomic, because http.TimeoutHandler may run the inner one on a goroutine
	// of its own and leave it behind.
	outer *Fields
	inner atomic.Pointer[Fields] // itself while another one makes itself known
	lists *Lists                 // of all middlewares from the outermost to this, and further inwards; nil: alone, or they do not fit
}

// Current returns the values that hold.
func (f *Fields) Current() *Values {
	if v := f.reissued.Load(); v != nil {
		return v
	}
	return &f.Values
}

// usual is how many middlewares are stacked at most, without an allocation.
const usual = 4

// Lists are the lines of a stack in the fields that are lists.
type Lists [listed][usual]string

// NoStore goes with every token: Set-Cookie alone does not keep a response out
// of shared caches (RFC 9111 section 7.3).
const NoStore = "no-store"
