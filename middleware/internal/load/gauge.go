// SPDX-License-Identifier: Apache-2.0

package load

import (
	"sync/atomic"
	"time"
)

// A Threshold is the load from which an instance is busy. A field of 0 is not set.
type Threshold struct {
	// PerSecond is how many requests are admitted in a second, in the mean over ten
	// seconds or so. Permitted: up to 1000000.
	PerSecond int64

	// AtOnce is how many requests are under way.
	AtOnce int64
}

// A network counts for at most 1/networkPart of the threshold.
const networkPart = 4

// A gauge measures the load of an instance, a network, or a client.
type gauge struct {
	// A bucket that leaks what the threshold is while it is calm, and half of that while it is
	// busy. Like GCRA it is kept as the time at which it is empty, in nanoseconds since 1970. The
	// lowest bit says that it is busy: one word, so that both change at once.
	empty atomic.Int64
	live  atomic.Int64 // requests under way
}

// span is how long a full bucket takes to leak, whether it is calm or busy. That both
// take as long is what bounds all that calm spells admit.
const span = int64(10 * time.Second)

// A limit is the load from which a gauge is busy.
type limit struct {
	each   int64 // what a request adds to a bucket, in nanoseconds and even; 0: not set
	spare  int64 // a bucket is full when it has less left
	atOnce int64 // requests under way; 0: not set
}

// all is the limit of an instance: more than fits makes it busy.
func (at Threshold) all() (l limit) {
	l.atOnce = at.AtOnce
	if at.PerSecond > 0 {
		l.each = ((int64(time.Second)+at.PerSecond-1)/at.PerSecond + 1) &^ 1
	}
	return l
}

// network is the limit of one network. A network is busy once no more fits: otherwise four
// networks could make an instance busy, or the request that is one too many would count for none.
// It has at least two requests under way; a client has one.
func (at Threshold) network() (l limit) {
	l.each = networkPart * at.all().each
	l.spare = l.each
	if at.AtOnce > 0 {
		l.atOnce = max(2, (at.AtOnce-1)/networkPart)
	}
	return l
}

// busy reports whether it was busy at the last look.
func (g *gauge) busy() bool { return g.empty.Load()&1 != 0 }

// update brings the word up to date, counts a request if one was admitted, and reports whether
// the gauge is busy, and whether the request was within the limit: while it is busy half as many
// are.
func (g *gauge) update(now time.Time, at limit, admitted bool) (busy, counts bool) {
	t := now.UnixNano() &^ 1
	for {
		was, live := g.empty.Load(), g.live.Load()
		empty := emptyAt(was&^1, t, span)
		busy = was&1 != 0 && (empty > t || at.atOnce > 0 && 2*live >= at.atOnce)
		if admitted && at.each > 0 {
			if busy {
				empty += 2 * at.each
			} else {
				empty += at.each
			}
			counts = !busy || empty <= t+span
			if busy {
				empty = min(empty, t+span)
			}
		}
		if !busy && (empty+at.spare > t+span || at.atOnce > 0 && live >= at.atOnce) {
			busy, empty = true, t+span
		}
		word := empty
		if busy {
			word++
		}
		// A reader alone changes nothing that the next would not find out, unless the flag or
		// the clock has changed: so it costs no write.
		if !admitted && word&1 == was&1 && was&^1 <= t+span || g.empty.CompareAndSwap(was, word) {
			return busy, counts
		}
	}
}

// emptyAt returns when a bucket is empty that was to be so at a time, or has never been used. That is
// further ahead than most only if the clock was set back.
func emptyAt(was, t, most int64) int64 {
	if was == 0 {
		return t
	}
	return min(max(was, t), t+most)
}

// has counts a request of a client, and reports whether that is within its part: its bucket has
// room for what it adds, or is empty.
func (g *gauge) has(now time.Time, cost int64) bool {
	t := now.UnixNano() &^ 1
	for {
		was := g.empty.Load()
		empty := emptyAt(was, t, max(span, cost))
		has := empty == t || empty+cost <= t+span
		if has {
			empty += cost
		} else if empty == was {
			return false
		}
		if g.empty.CompareAndSwap(was, empty) {
			return has
		}
	}
}

// begin counts a request of a client that is under way, if its part has room for it.
func (g *gauge) begin(part int64) bool {
	if g.live.Add(1) <= part {
		return true
	}
	g.live.Add(-1)
	return false
}
