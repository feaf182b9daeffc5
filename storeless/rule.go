// SPDX-License-Identifier: Apache-2.0

package storeless

import (
	"fmt"
	"hash/fnv"
	"time"
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
	owes     int64 // GCRA: the most that the limit is owed in any tier, µs; see Policy.Among
	skew     int64 // how far ahead of the clock a tally may be, µs
	reach    int64 // how far ahead of the clock its cells may end, seconds
	keeps    int64 // for how many windows a count is remembered, its own included
	life     int64 // of a tally whose counts stay for all of it, µs; 0: none; see Policy.Pass
	dies     int64 // seconds after which a tally that is charged is dead; 0: never
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
		keeps:    2,
	}
	if l.Algorithm.gcra() {
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
	// An overdraft is what is owed and a window once more: of buckets the last window is that.
	r.reach = (r.keeps+1)*r.seconds + 2*r.owes/1_000_000 + farFutureSlack
}

// last makes a rule that of a pass: what was used stays used for life, where it is counted
// in windows. (A window that forgets would give most passes of a day's quota a second one,
// at midnight.) And no cell needs to outlive the pass: those of the dead would fill the
// memory of a day's limit for two days.
func (r *rule) last(life int64) {
	if life == 0 {
		return
	}
	r.dies = life/1_000_000 + deathSlack
	if r.interval > 0 {
		return
	}
	r.life = life
	// A token has to outlive the tally, also one that was last charged at a window's end.
	r.keeps = 1 + (life+r.window-1)/r.window
	r.owe(r.owes)
}

// deathSlack is for how many seconds more a pass is remembered: the clock of the instance
// that sold it may be ahead.
const deathSlack = 60

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

// farFutureSlack is how many seconds later than any limit in use can reach a cell may
// end: one that ends later yet was written under a wrong clock.
const farFutureSlack = 24 * 60 * 60
