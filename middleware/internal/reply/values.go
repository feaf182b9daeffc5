package reply

import "sync/atomic"

// The response fields, in net/http's canonical spelling, so that they are set
// without a search for capitals. Field names are case-insensitive.
const (
	policyField     = "Ratelimit-Policy"
	rateLimitField  = "Ratelimit"
	xLimitField     = "X-Ratelimit-Limit"
	xRemainingField = "X-Ratelimit-Remaining"
	xResetField     = "X-Ratelimit-Reset"
	retryField      = "Retry-After"

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
	XLimit
	XRemaining
	XReset
	Challenge
	Degraded
	Cache
	Retry
	numFields

	listed = Token + 1 // the fields before are lists: each policy of a stack adds a line
)

var names = [numFields]string{
	Policy:     policyField,
	RateLimit:  rateLimitField,
	Token:      TokenField,
	XLimit:     xLimitField,
	XRemaining: xRemainingField,
	XReset:     xResetField,
	Challenge:  ChallengeField,
	Degraded:   DegradedField,
	Cache:      CacheControl,
	Retry:      retryField,
}

// Values are what a decision adds to the response; "" is not sent. They are kept,
// because a handler may wipe them from the header map before it writes.
type Values struct {
	Lines  [numFields]string // one for each field
	Cookie string            // that of the token, or of the pass that has admitted
}

// Fields are the values of a decision among those of others. They do not change once
// the handler runs: what comes after is put beside them, because http.TimeoutHandler
// may have left a handler behind that still refunds, while the response is written.
type Fields struct {
	Values
	reissued atomic.Pointer[Values] // in their place; nil: none
	Paid     bool                   // the token was bought with this very request
	ahead    bool                   // they were set before the handler ran
	sent     int8                   // how many that were
	settled  atomic.Bool            // they are what they are: the header is being written
	Now      int64                  // of the request, in µs since 1970

	// Where several middlewares are stacked, each must know of the others: the
	// response carries a line for each policy, whoever writes it. inner is
	// atomic, because http.TimeoutHandler may run the inner one on a goroutine
	// of its own and leave it behind.
	outer *Fields
	inner atomic.Pointer[Fields]
}

// NoStore goes with every token: Set-Cookie alone does not keep a response out
// of shared caches (RFC 9111 section 7.3).
const NoStore = "no-store"
