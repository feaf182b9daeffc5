// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"net/http"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
)

// A tier is one set of limits, with all that follows from them.
type tier struct {
	name         string
	policy       *limiter.Policy
	net56, net48 *limiter.Policy // for whole IPv6 networks
	field        string          // RateLimit-Policy
	units        []string        // that the limits count, "" being Config.Cost; nil: all do
	names        []string        // of the limits, quoted; "" for shadows, which clients are not told
	room         *tier           // for the waiting room; nil: none
	pass         *tier           // what a tally that is bought may use; nil: none is sold

	// The limits that count by outcome, where there are any: all others are charged by those above.
	late, late56, late48 *limiter.Policy
	lateLimits           uint8  // a bit for each
	lateIDs              uint64 // of these limits: the sum of their IDs, which are hashes: the same limits in another order have the same

	// On an exact route alone.
	exact     *exact.Policy
	fallback  *limiter.Policy // when the counter does not answer
	quotaHash guardedcall.Key
	leases    *exact.Policy // of slots, where there is a Concurrency
}

// A customer is an identity that may have limits of its own, as a key.
type customer struct {
	kind  byte
	named uint32
	text  string
	tier  string
}

// ownLimits are what was said of a customer: nothing, or its limits.
type ownLimits struct {
	limits []Limit // nil: none of its own
	tier   *tier   // nil: not compiled yet
}

// tooDear reports whether a request of this price is more than any pass has, so that no
// tally that is for sale can pay for it.
func (t *tier) tooDear(price limiter.Price) bool {
	return t.pass != nil && t.pass.policy.TooDear(price) >= 0
}

// lateOf returns the limits that count by outcome of the network that has the limits p at the door.
func (t *tier) lateOf(p *limiter.Policy) *limiter.Policy {
	if p == t.net56 {
		return t.late56
	}
	return t.late48
}

// most returns the largest cost that a request may ever have, by what limits say that count Config.Cost.
func (t *tier) most() int64 { return t.mostOf("") }

// mostOf is most for a unit.
func (t *tier) mostOf(unit string) int64 {
	most := int64(limiter.MaxQuota)
	for i := range t.names {
		if t.unit(i) == unit && !t.policy.Limit(i).Shadow {
			most = min(most, t.policy.Most(i, 0))
		}
	}
	return most
}

// passHolds reports whether a pass has room for whatever the policy has room for, so that no request is too dear for it alone.
func (t *tier) passHolds() bool {
	for i := range t.names {
		if unit := t.unit(i); t.pass.mostOf(unit) < t.mostOf(unit) {
			return false
		}
	}
	return true
}

// limit returns the i-th limit, as the program has it.
func (t *tier) limit(i int) Limit {
	if t.exact != nil {
		return t.exact.Limit(i)
	}
	return limiter.LimitAs[Limit](t.policy.Limit(i))
}

// unit returns the unit of the i-th limit.
func (t *tier) unit(i int) string {
	if t.units == nil {
		return ""
	}
	return t.units[i]
}

// A unit is a compiled [Unit].
type unit struct {
	name   string
	limits uint8 // a bit for each
	cost   func(*http.Request) int64
}

// has reports whether the i-th of a set of limits is in it.
func has(limits uint8, i int) bool { return limits>>i&1 != 0 }
