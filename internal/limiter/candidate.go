// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"time"

	"github.com/tallystick/tallystick/internal/gossip"
)

// A Candidate is one tally as a request shows it: it may be charged.
type Candidate struct {
	// Key names the tally in memory. Tallies of different policies that share
	// a memory need different keys.
	Key Key

	// Shown merges the tokens of the tally; zero if none.
	Shown Tally

	// Costs, if not nil, are charged in place of the cost of the call, unless that is 0.
	Costs *Costs

	// Held is what was admitted for the tally and is not charged yet. It takes room in those
	// limits of a policy that are charged later; see [Policy.Charging].
	Held int64

	// Ends is when a tally that was bought is worth nothing any more: what is charged to it
	// by a pass is remembered until then, however long the passes live that are sold by now.
	// Zero: when one ends that is sold at this moment.
	Ends time.Time

	// Networks are counted beside the tally: at most [MaxNetworks].
	Networks []Network

	// Proof, if not nil, is spent if the request is admitted, and refuses it if
	// it was spent before.
	Proof *Proof

	// Waits is set by Take where the limits would admit the request, and it has to wait until peers have heard of
	// what was admitted before. Its Key is 0 otherwise.
	Waits gossip.Limit

	// Hasty has the request not wait: it is admitted, although peers have not heard.
	Hasty bool

	// Provider is any number that stands for the provider of the client's address, such
	// as the first bits of the address; 0 if there is none. Newcomers of a provider
	// that has claimed a quarter of the memory's cells take no more from others where the
	// memory is full, but share one in each set. So no single network can fill the memory.
	Provider uint64
}

// A Proof is a proof of work that buys a single request.
type Proof struct {
	Key     Key
	Expires time.Time // when it is worth nothing any more and can be forgotten
	told    bool      // peers are, and it is neither spent nor given back
}

// A Network is counted beside a tally, in memory only. It is a group of clients with a limit that
// they share, see [Policy.Scale]. An IPv6 /56 or /48 is one, whose holder has any number of /64s. A
// request has to fit into its policy too, and is charged to it too.
type Network struct {
	Key    Key     // its own: not the key of a tally
	Policy *Policy // of the limits of the tally's
	Held   int64   // as in Candidate
}

// MaxNetworks is how many networks a tally may belong to: a /56 and a /48.
const MaxNetworks = 2

// price returns what a request of this cost costs on each limit.
func (f *Candidate) price(cost int64) Price { return Price{cost, f.Costs} }

// countNetworks panics if there are too many.
func (f *Candidate) countNetworks() {
	if len(f.Networks) > MaxNetworks {
		panic(fmt.Sprintf("limiter: %d networks, more than MaxNetworks", len(f.Networks)))
	}
}

// A Key names a tally in a [Memory]: a hash under the memory's own seed, so
// that no outsider can aim two tallies at one place. See [Memory.Key].
type Key uint64
