// SPDX-License-Identifier: Apache-2.0

package exact

import "time"

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

// deadlineOf returns the deadline that an engine names for its calls, or 0: package middleware asks by this name. What
// wraps an engine has that of the engine.
func deadlineOf(engine Counter) time.Duration {
	if slow, ok := engine.(interface{ Deadline() time.Duration }); ok {
		return slow.Deadline()
	}
	return 0
}
