// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/tallystick/tallystick/middleware/exact"
)

// Partitioned is an [exact.Counter] whose keys lie in several places that fail apart, such as the
// nodes of a cluster. Package middleware gives each part places and a breaker of its
// own: then one node that hangs is an outage for its keys, and for no others.
type Partitioned interface {
	exact.Counter

	// Part names the part that a call goes to: any number, the same for all calls of one part. It
	// may change, as nodes do. It must be quick, and ask no other process.
	Part(call exact.Call) int
}
