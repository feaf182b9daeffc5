// SPDX-License-Identifier: Apache-2.0

package exact

// Parted is a [Counter] whose keys lie in several places that fail apart, such as the
// nodes of a cluster. Package middleware gives each part places and a breaker of its
// own: then one node that hangs is an outage for its keys, and for no others.
type Parted interface {
	Counter

	// Part names the part that a call goes to: any number, the same for all calls of
	// one part. It may change, as nodes do. It must be quick, and ask nobody.
	Part(call Call) int
}

// partOf returns the part of an engine that a call goes to: what wraps one is parted as
// it is.
func partOf(engine Counter, call Call) int {
	if parted, ok := engine.(Parted); ok {
		return parted.Part(call)
	}
	return 0
}
