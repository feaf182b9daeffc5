// SPDX-License-Identifier: Apache-2.0

package guardedcall

import "time"

const (
	// firstBound is how many calls are out at once before anything is known of the counter. It
	// doubles with each round trip, where that is quick. If each instance began with more at once,
	// the queue would be as long as the deadline where a call takes some ms.
	firstBound = 4

	// unit is one place of a bound, which grows by less.
	unit = 1 << 10

	// fewCalls may be out while no call is answered and few are made.
	fewCalls = 4

	// loneAnswers is how many calls, one at a time, must all have been slow until that
	// is taken for what a call takes.
	loneAnswers = 8
)

// terms are what a part of a counter is asked by.
type terms struct {
	deadline time.Duration
	most     int // calls that may be out or wait
}

// A bound limits how many calls are out at once. All instances share the server, so no
// instance knows how many calls it can answer in time. An instance sees only how long
// answers take. More than half of what a deadline leaves for waiting is too long: late
// answers are wasted work and delay the next ones. Little's law then bounds the
// server's queue by half a deadline, for any number of instances.
//
// It grows like TCP's window: it doubles while there is hardly a queue, then grows by one
// place a round trip, up to an eighth. It shrinks at most once a round trip. A longer
// queue does not make the server do more, and must be worked off when the server slows
// down: with a quarter instead of an eighth, a server that suddenly is ten times as slow
// answers no call for three deadlines. The time without a queue is the least that was
// seen, as in Vegas. It is raised only while calls go out one by one: among many it would
// rise with the queue.
type bound struct {
	size   int64         // in units; 0: nothing is known
	lone   time.Duration // the least round trip
	recent time.Duration // the longest one of late
	sent   uint64        // calls that went out
	shrunk uint64        // the number of the last call before it shrank

	slow    int // answers to calls that were alone and took long, in a row
	slowest time.Duration
}

// places returns how many calls may be out.
func (b *bound) places(most int) int {
	if b.size == 0 {
		b.size = int64(min(most, firstBound)) * unit
	}
	return int(b.size / unit)
}

// reserve is how much of its time a call must have left when it goes out, to hope for an
// answer.
func (b *bound) reserve(deadline time.Duration) time.Duration {
	return min(b.recent+b.recent/4, 7*deadline/8)
}

// pressed reports whether answers take long enough that there must be a queue.
func (b *bound) pressed(deadline time.Duration) bool { return 2*(b.recent-b.lone) > deadline-b.lone }

// answered notes how long an answer to the nth call has taken. needed says that the
// bound was about to hold a call back.
func (b *bound) answered(n uint64, took time.Duration, needed bool, t terms) {
	b.recent = max(took, b.recent-b.recent/8)
	if b.lone == 0 || took < b.lone {
		b.lone = max(took, 1)
	}
	slack := max(t.deadline-b.lone, t.deadline/8)
	queued := took - b.lone
	if n <= b.shrunk {
		return
	}
	switch {
	case 8*queued > 3*slack:
		b.learn(took)
		b.shrink(b.size * 3 / 4)
	case !needed:
	case 16*queued < slack:
		b.grow(unit, t.most)
	case 8*queued < slack:
		b.grow(unit*unit/b.size, t.most)
	}
}

// learn takes long answers to lone calls for what a call takes, if they all are.
func (b *bound) learn(took time.Duration) {
	if b.size > unit {
		b.slow = 0
		return
	}
	if b.slow == 0 || took < b.slowest {
		b.slowest = took
	}
	if b.slow++; b.slow == loneAnswers {
		b.lone, b.slow = b.slowest, 0
	}
}

// missed notes that the nth call had no answer in time. silent says that no call had one
// since it came. If others were answered soon, no queue is to blame: shrinking the bound
// would let one key that hangs shut out all the others.
func (b *bound) missed(n uint64, silent, busy bool, t terms) {
	switch {
	case n <= b.shrunk:
	case silent && busy:
		b.shrink(unit)
	case silent:
		b.shrink(min(b.size, max(b.size/2, fewCalls*unit)))
	case b.pressed(t.deadline):
		b.shrink(b.size / 2)
	}
}

func (b *bound) grow(by int64, most int) { b.size = min(b.size+by, int64(most)*unit) }

func (b *bound) shrink(to int64) { b.size, b.shrunk = max(to, unit), b.sent }
