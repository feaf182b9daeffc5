// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/tallystick/tallystick/internal/cells"
)

// rule is one compiled limit: every number that a decision needs.
type rule struct {
	limit    Limit // with its defaults filled in
	id       uint32
	capacity int64 // most cost that one request may have: Quota, or Burst
	window   int64 // µs
	seconds  int64 // window in seconds
	interval int64 // GCRA: emission interval, µs, rounded up
	empties  int64 // GCRA: time in which a full bucket empties, µs
	owes     int64 // GCRA: the most that the limit is owed in any tier, µs; see Policy.WithTiers
	skew     int64 // how far ahead of the clock a tally may be, µs
	reach    int64 // how far ahead of the clock its cells may end, seconds
	life     int64 // of a pass, µs, where what it has used of the limit stays used for all of it; else 0
	later    bool  // it is checked, and charged by another policy; see Policy.Charging
}

// maxSkew is the most by which the clocks of two instances may differ. More is
// a fault to mend with NTP; less would refuse fleets that are merely sloppy.
const maxSkew = 5 * time.Second

// compile assumes a checked limit.
func compile(l Limit) rule {
	r := rule{
		limit:    l,
		id:       limitID(l),
		capacity: l.Quota,
		window:   l.Window.Microseconds(),
		seconds:  int64(l.Window / time.Second),
		skew:     min(maxSkew, l.Window/10).Microseconds(),
	}
	if gcra(l.Algorithm) {
		r.interval = emissionInterval(l)
		r.capacity = l.Burst
		r.empties = l.Burst * r.interval
	}
	r.owe(r.empties)
	return r
}

// owe sets the most that any tier's bucket may be owed.
func (r *rule) owe(most int64) {
	r.owes = most
	// An overdraft adds one more window to the debt: for buckets the last window is the debt.
	r.reach = 3*r.seconds + 2*r.owes/1_000_000 + cells.FarFuture
}

// as makes a rule with another quota play the part of the one it was made of.
func (r *rule) as(of *rule) { r.id, r.later, r.life = of.id, of.later, of.life }

// limitID identifies a limit's count in tokens and memory. Quota and burst are
// left out on purpose: counts say what was used, so a changed quota applies to
// them at once. 24 bits keep a token's entry short; a policy whose own ids
// collide is refused by Compile.
func limitID(l Limit) uint32 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d %s", l.Algorithm, l.Window/time.Second, l.Name)
	sum := h.Sum64()
	return uint32(sum^sum>>24^sum>>48) & 0xffffff
}
