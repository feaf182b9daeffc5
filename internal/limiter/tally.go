// SPDX-License-Identifier: Apache-2.0

package limiter

// A State holds the counts of one limit.
//
// For the window algorithms, At is the number of the window since the Unix
// epoch, Cur what was used in it, and Prev what was used in the window before.
// For GCRA, At is the theoretical arrival time in microseconds since the epoch;
// Cur is the overdraft, by how many seconds, rounded up, that is further ahead than any
// tier's bucket can be owed, because of a cost that was settled; and Prev is zero.
// Microseconds, because marks then stay exact in the float64 integers of JavaScript and Lua. The zero State has counted nothing.
type State struct {
	At        int64
	Cur, Prev uint32
}

// A Tally holds the state of each of a policy's limits for one client, in the
// policy's order; what lies beyond [Policy.Len] is zero. It says what was used,
// never what remains, so a changed quota applies to it at once.
type Tally [MaxLimits]State

// Costs are the costs of one request on each limit, in the order of the policy. A limit at 0 is not charged and refuses
// nothing: the caller sees to it that no client chooses so.
type Costs [MaxLimits]int64

// A Price is the cost of a request: one for all limits, or one for each. A Cost of 0 charges nothing on any.
type Price struct {
	Cost int64
	Each *Costs // nil: Cost
}

// Of returns what the i-th limit is charged.
func (p Price) Of(i int) int64 {
	if p.Each == nil || p.Cost == 0 {
		return p.Cost
	}
	return p.Each[i]
}
