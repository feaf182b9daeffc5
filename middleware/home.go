// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"crypto/rand"
	"crypto/sha256"
	"math/bits"

	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// A home is the process that has issued the challenge of a bought tally: not where its proof was
// shown, for one proof is good on every instance, and each would be the home. An instance
// that has never met a tally has to believe that nothing was used of it. So a tally is worth its
// quota at home, and elsewhere a share of it, see [storeless.Policy.Away].
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
type foreignShare []*storeless.Policy

// foreignShareOf compiles the share of a pass.
func foreignShareOf(pass *storeless.Policy, instances int64) (f foreignShare) {
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
func (f foreignShare) of(cost int64) (class byte, p *storeless.Policy) {
	if len(f) == 0 {
		return 0, nil
	}
	i := min(bits.Len64(uint64(max(1, cost)-1)), len(f)-1)
	return byte(i), f[i]
}

// largestOf returns one that knows how much a bucket of any of the shares may be owed; nil if
// there are none. See [storeless.Policy.Among].
func largestOf(shares ...foreignShare) *storeless.Policy {
	var all []*storeless.Policy
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
func (f foreignShare) introduce(largest *storeless.Policy) {
	for i, p := range f {
		if p != nil {
			f[i] = p.Among(largest)
		}
	}
}
