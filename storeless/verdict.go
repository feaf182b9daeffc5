// SPDX-License-Identifier: Apache-2.0

package storeless

import "time"

// A Verdict is the outcome of one decision.
type Verdict struct {
	// Admitted says that every limit in force had room for the cost, and that all were
	// charged, except shadows without room. Otherwise none was.
	Admitted bool

	// Impossible says that the cost is above the capacity of a limit: the
	// request can never pass, however long the client waits.
	Impossible bool

	// Inherited is the count, in cost, with which a newcomer to a full memory began. It
	// is from one limit of its own or of its networks: the one with the largest part of its
	// quota used. Zero for a tally that the memory knows, or has room for, and for an exact counter.
	Inherited int64

	// Saturated belongs to package middleware: the memory had no room to remember that the proof is spent,
	// and the request was refused for that. Exact counters know no proofs.
	Saturated bool

	// Spent belongs to package middleware: the proof had bought a request before.
	Spent bool

	// Wait is how long until the same request would pass if the tally got no
	// other request, rounded up to whole seconds. Zero if admitted or impossible,
	// and if no limit refused.
	Wait time.Duration

	// Limits says how each limit of the policy stands after the decision.
	Limits [MaxLimits]LimitStatus
}

// A LimitStatus is the state of one limit after a decision.
type LimitStatus struct {
	Remaining int64         // cost that would still pass now; never negative
	Reset     time.Duration // whole seconds until a blocked limit admits this cost, else until Remaining next rises; 0 if it is full
	Blocked   bool          // this limit refused, or would have if it is a shadow
	Shadow    bool          // this limit never refuses; see [Limit].Shadow
}
