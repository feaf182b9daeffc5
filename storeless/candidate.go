package storeless

import "time"

// A Candidate is one tally as a request shows it: it may be charged.
type Candidate struct {
	// Key names the tally in memory. Tallies of different policies that share
	// a memory need different keys.
	Key Key

	// Shown is what the tokens of the tally show, merged; zero if none.
	Shown Tally

	// Networks are the networks that its client belongs to, counted in memory only.
	Networks []Network

	// Proof, if not nil, is spent if the request is admitted, and refuses it if
	// it was spent before.
	Proof *Proof

	// MustKeep refuses what the memory has no room for, be it the family's count
	// or that of one of its networks, instead of believing the token alone. With
	// a Proof that one is spent then, and only then: a family that cannot be
	// remembered gets one request for it.
	MustKeep bool
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
}

// MaxNetworks is how many networks a family may belong to.
const MaxNetworks = 2

// A Key names a family in a [Memory]: a hash under the memory's own seed, so
// that nobody outside can aim two families at one place. See [Memory.Key].
type Key uint64
