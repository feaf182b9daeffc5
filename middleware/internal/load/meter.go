// SPDX-License-Identifier: Apache-2.0

// Package load tells whether an instance is busy: by how many requests it has admitted in a
// while, and by how many are under way. It knows of no tally and no client.
package load

import (
	"sync/atomic"
	"time"
)

// A Threshold is the load from which an instance is busy. What is 0 is not set.
type Threshold struct {
	// PerSecond is how many requests are admitted in a second, in the mean over ten
	// seconds or so. Permitted: up to 1000000.
	PerSecond int64

	// AtOnce is how many requests are under way.
	AtOnce int64
}

// A Meter tells whether an instance is busy. The zero value is calm.
//
// It becomes busy when more than PerSecond·(t + 10) requests were admitted in some t seconds, or
// when AtOnce are under way. It is calm again when, in some t seconds since, no more than half of
// PerSecond·(t − 10) were admitted, and fewer than half of AtOnce are under way. So it is busy
// for ten seconds at least, and does not flicker at the threshold. And whatever asks, all that
// is admitted in calm spells is no more than PerSecond·(t + 10) in any t seconds, and one request
// for each time that it became busy: what a calm spell has to spare, the busy one after it
// makes up for.
//
// It is safe for concurrent use, and lock-free; the clock is an argument. A clock that is set
// back may make an instance that was busy busy for ten seconds, and keeps a busy one so
// for ten more; a clock that is set forward forgets what was admitted before.
type Meter struct {
	// A bucket that leaks PerSecond while it is calm, and half of that while it is busy.
	// Like GCRA it is kept as the time at which it is empty, in nanoseconds since 1970. The
	// lowest bit says that it is busy: one word, so that both change at once.
	empty atomic.Int64
	live  atomic.Int64 // requests under way
}

// span is how long a full bucket takes to leak, whether it is calm or busy. That both
// take as long is what bounds all that calm spells admit.
const span = int64(10 * time.Second)

// Busy reports whether the instance is busy.
func (m *Meter) Busy(now time.Time, at Threshold) bool { return m.update(now, at, false) }

// Admit counts one request that was admitted.
func (m *Meter) Admit(now time.Time, at Threshold) { m.update(now, at, true) }

// Begin counts a request that is under way from now on. The next that asks finds out whether
// that is too many.
func (m *Meter) Begin() { m.live.Add(1) }

// End ends what has begun.
func (m *Meter) End() { m.live.Add(-1) }

// update brings the word up to date, counts a request if one was admitted, and reports whether
// the instance is busy.
func (m *Meter) update(now time.Time, at Threshold, admitted bool) (busy bool) {
	t := now.UnixNano() &^ 1
	for {
		was, live := m.empty.Load(), m.live.Load()
		empty := min(max(was&^1, t), t+span) // further ahead only if the clock was set back
		busy = was&1 != 0 && (empty > t || at.AtOnce > 0 && 2*live >= at.AtOnce)
		if admitted && at.PerSecond > 0 {
			each := ((int64(time.Second)+at.PerSecond-1)/at.PerSecond + 1) &^ 1
			if busy {
				empty = min(empty+2*each, t+span)
			} else {
				empty += each
			}
		}
		if !busy && (empty > t+span || at.AtOnce > 0 && live >= at.AtOnce) {
			busy, empty = true, t+span
		}
		word := empty
		if busy {
			word++
		}
		// A reader alone changes nothing that the next would not find out, unless the flag or
		// the clock has changed: so it costs no write.
		if !admitted && word&1 == was&1 && was&^1 <= t+span || m.empty.CompareAndSwap(was, word) {
			return busy
		}
	}
}
