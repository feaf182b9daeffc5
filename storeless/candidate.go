// SPDX-License-Identifier: Apache-2.0

package storeless

import "time"

// A Candidate is one tally as a request shows it: it may be charged.
type Candidate struct {
	// Key names the tally in memory. Tallies of different policies that share
	// a memory need different keys.
	Key Key

	// Shown is what the tokens of the tally show, merged; zero if none.
	Shown Tally

	// Held is what was admitted for the tally and is not charged yet. It takes room in those
	// limits of a policy that are charged later; see [Policy.Charging].
	Held int64

	// Networks are the networks that its client belongs to, counted in memory only.
	Networks []Network

	// Ceiling, if not nil, is what the memory admits of the tally by itself, whatever is
	// shown: a policy of the shape of the tally's, such as a [Policy.Share] of it. What others
	// have admitted counts in the tally, and not here. It is counted in memory only, so that
	// some memories with a share each admit no more together than what was divided.
	Ceiling *Policy

	// Proof, if not nil, is spent if the request is admitted, and refuses it if
	// it was spent before.
	Proof *Proof

	// Provider is any number that stands for whom the client has its address from, such
	// as the first bits of the address; 0 if there is nobody. Newcomers of a provider
	// that has claimed a quarter of the memory's cells take no more from others where the
	// memory is full, but share one in each set. So nobody can fill the memory on behalf
	// of all from one network.
	Provider uint64
}

// A Proof is a proof of work that buys a single request.
type Proof struct {
	Key     Key
	Expires time.Time // when it is worth nothing any more and can be forgotten
}

// A Network is a network of many clients that may do no more than its own policy
// admits: an IPv6 /56 or /48, whose holder has any number of /64s.
type Network struct {
	Key    Key
	Policy *Policy // of the shape of the family's; see [Policy.Scale]
	Held   int64   // as in Candidate
}

// MaxNetworks is how many networks a family may belong to.
const MaxNetworks = 2

// maxAround is how many counts a family may have beside its own: of its networks, and of
// what it has used of its ceiling.
const maxAround = MaxNetworks + 1

// underCeiling returns what the family has used of its ceiling, as a network around it. What
// its own cells hold is the most that anybody has seen, and no such count; so this has cells
// of its own, under a key that follows from the family's.
func (f *Candidate) underCeiling() Network {
	return Network{Key: ^f.Key, Policy: f.Ceiling, Held: f.Held}
}

// A Key names a family in a [Memory]: a hash under the memory's own seed, so
// that nobody outside can aim two families at one place. See [Memory.Key].
type Key uint64
