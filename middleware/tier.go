package middleware

import (
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/storeless"
)

// A tier is one set of limits, with all that follows from them.
type tier struct {
	name         string
	policy       *storeless.Policy
	net56, net48 *storeless.Policy // for whole IPv6 networks
	field        string            // RateLimit-Policy
	names        []string          // of the limits
	room         *tier             // for the waiting room; nil: none

	// On an exact route alone.
	exact, shard *exact.Policy
	fallback     *storeless.Policy // when the counter does not answer
	quotaHash    guardedcall.Key
}
