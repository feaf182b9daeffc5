// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"crypto/rand"
	"crypto/sha256"
	"math/bits"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
)

// A tier is one set of limits, with all that follows from them.
type tier struct {
	name         string
	policy       *limiter.Policy
	net56, net48 *limiter.Policy // for whole IPv6 networks
	field        string          // RateLimit-Policy
	names        []string        // of the limits; "" of shadows, which are told to nobody
	room         *tier           // for the waiting room; nil: none
	pass         *tier           // what a tally that is bought may use; nil: none is sold
	away         foreignShare    // of a pass: what it may use away from home
	ceiling      *limiter.Policy // what this instance admits of a tally; nil: all

	// The limits that count by outcome, where there are any: all others are charged by those above.
	late, late56, late48, lateCeiling *limiter.Policy

	// On an exact route alone.
	exact, shard *exact.Policy
	fallback     *limiter.Policy // when the counter does not answer
	quotaHash    guardedcall.Key
	leases       *exact.Policy // of slots, where there is a Concurrency
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

// tooDear reports whether a request of this cost is more than any pass has, so that no
// tally that is for sale can pay for it.
func (t *tier) tooDear(cost int64) bool { return t.pass != nil && cost > t.pass.most() }

// ceilingAmong tells the ceiling of the tiers that of knows.
func (t *tier) ceilingAmong(of *tier) {
	if t.ceiling != nil {
		t.ceiling = t.ceiling.Among(of.ceiling)
	}
}

// lateOf returns the limits that count by outcome of what has the limits p at the door.
func (t *tier) lateOf(p *limiter.Policy) *limiter.Policy {
	switch p {
	case t.net56:
		return t.late56
	case t.net48:
		return t.late48
	}
	return t.lateCeiling
}

// most returns the largest cost that a request may ever have.
func (t *tier) most() int64 {
	if t.ceiling != nil {
		return t.ceiling.Capacity()
	}
	return t.policy.Capacity()
}

// bound returns the networks of a tally with what is counted under its ceiling, if it has one. What the
// tally's own cells hold is the most that anybody has seen, and no such count. So this has
// cells of its own, under a key that follows from the tally's: to hash anew takes longer.
func (t *tier) bound(tally limiter.Key, networks []limiter.Network) []limiter.Network {
	if t.ceiling == nil {
		return networks
	}
	return append(networks, limiter.Network{Key: ^tally, Policy: t.ceiling})
}

// A home is the process that has issued the challenge of a bought tally: not where its proof was
// shown, for one proof is good on every instance, and each would be the home. An instance
// that has never met a tally has to believe that nothing was used of it. So a tally is worth its
// quota at home, and elsewhere a share of it, see [limiter.Policy.Away].
//
// The challenge carries its home, and so does each token of the tally: three bytes of a hash of
// its serial, under a secret of the process. Other processes see that it is not theirs, and
// nobody sees how many there are, or which tallies have the same.
//
// No rule makes what one client may use depend on what its neighbours do. All that were tried, such as
// a ceiling for the tallies of an address, let a neighbour lock those out who have paid.
type home struct{ secret [sha256.Size]byte }

func newHome() *home {
	h := new(home)
	rand.Read(h.secret[:]) // never fails: the process ends first
	return h
}

// mark returns what marks a serial as of this process.
func (h *home) mark(serial [6]byte) [3]byte {
	var b [sha256.Size + len(serial)]byte
	copy(b[copy(b[:], h.secret[:]):], serial[:])
	sum := sha256.Sum256(b[:])
	return [3]byte(sum[:])
}

// is reports whether a tally was sold for a challenge of this process.
func (h *home) is(own *token.Own) bool {
	return h.mark([6]byte(own.ID[:])) == [3]byte(own.ID[6:])
}

// A foreignShare is what a tally may use on each instance that is not its home, by what a
// request costs: the i-th policy is for costs up to 2ⁱ, the last for all above. Dear requests are few, and
// come less evenly; by one share for all costs, those that cost more would be refused away from home for ever.
// nil: all of its quota.
type foreignShare []*limiter.Policy

// foreignShareOf compiles the share of a pass.
func foreignShareOf(pass *limiter.Policy, instances int64) (f foreignShare) {
	for cost := int64(1); ; cost *= 2 {
		p := pass.Away(instances, cost)
		if p == nil && len(f) == 0 {
			return nil
		}
		f = append(f, p)
		if p == nil || cost >= pass.Capacity() {
			return f
		}
	}
}

// of returns the class of requests of a cost, and its policy; nil: what they use is not held. Each class is
// counted by itself, or a dear request would take the room of the cheap ones that follow it.
func (f foreignShare) of(cost int64) (class byte, p *limiter.Policy) {
	if len(f) == 0 {
		return 0, nil
	}
	i := min(bits.Len64(uint64(max(1, cost)-1)), len(f)-1)
	return byte(i), f[i]
}

// largestOf returns one that knows how much a bucket of any of the shares may be owed; nil if
// there are none. See [limiter.Policy.Among].
func largestOf(shares ...foreignShare) *limiter.Policy {
	var all []*limiter.Policy
	for _, share := range shares {
		for _, p := range share {
			if p != nil {
				all = append(all, p)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[0].Among(all...)
}

// introduce tells f of the largest of all tiers' shares: of one for each tier and cost, so that it
// takes no time that grows with the square of the tiers.
func (f foreignShare) introduce(largest *limiter.Policy) {
	for i, p := range f {
		if p != nil {
			f[i] = p.Among(largest)
		}
	}
}
