// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"time"
)

// A timeline is the time that the charges of a bucket take: each takes an interval for a unit of
// its cost, one behind the other, and the mark of the bucket is where the last one ends. If no
// two overlap, and each is admitted between when its end is no further ahead than the bucket
// empties, and when it begins, then in any span the bucket admits its burst and what leaks
// in that span, and no more: all that was admitted within a span lies within as much of the
// line, and what empties. That holds in whatever order they were made, which is why a charge
// that was given back may be made anew where it was.
//
// It is only kept while calls are booked. A charge of now, and its refund, needs no place: it is
// the end of the line.
type timeline struct {
	base  int64  // Unix µs: what is before it was charged before the first that was booked
	holes []span // that were given back, in order, between base and the mark
}

// A span of a line, in Unix µs.
type span struct{ from, to int64 }

// maxHoles is how many holes a line has at most. Beyond it the one that is over first is forgotten:
// no call gets its place then.
const maxHoles = 64

// A fit is a call on one line: how long it is there, and how long before its end it may be
// admitted.
type fit struct{ length, empties int64 }

// first returns the first moment, not before at, at which there is room: in a hole, or
// behind the mark.
func (l *timeline) first(at, mark int64, f fit) int64 {
	for _, h := range l.holes {
		if h.to-h.from >= f.length && at <= h.to-f.length {
			return max(at, h.from+f.length-f.empties)
		}
	}
	return max(at, mark+f.length-f.empties)
}

// take puts a charge of a moment, at which there is room as first says, where that has found
// it. It returns from where it is there, what it skips included, and the mark.
func (l *timeline) take(at, mark int64, f fit) (from, end int64) {
	for i, h := range l.holes {
		if h.to-h.from < f.length || at > h.to-f.length {
			continue
		}
		from = max(h.from, at)
		l.holes = slices.Delete(l.holes, i, i+1)
		l.add(span{h.from, from})
		l.add(span{from + f.length, h.to})
		return from, mark
	}
	return mark, max(mark, at) + f.length
}

// free gives a span back, and returns the mark: what was last steps back.
func (l *timeline) free(s span, mark int64) int64 {
	if s.from = max(s.from, l.base); s.to > mark || s.from >= s.to {
		return mark
	}
	l.add(s)
	if last := len(l.holes) - 1; l.holes[last].to == mark {
		mark = l.holes[last].from
		l.holes = l.holes[:last]
	}
	return mark
}

// add adds a hole, if it is one, as part of those that it touches.
func (l *timeline) add(s span) {
	if s.from >= s.to {
		return
	}
	i := 0
	for i < len(l.holes) && l.holes[i].to < s.from {
		i++
	}
	j := i
	for ; j < len(l.holes) && l.holes[j].from <= s.to; j++ {
		s = span{min(s.from, l.holes[j].from), max(s.to, l.holes[j].to)}
	}
	l.holes = slices.Replace(l.holes, i, j, s)
	if len(l.holes) > maxHoles {
		l.holes = slices.Delete(l.holes, 0, 1)
	}
}

// pass forgets what is over.
func (l *timeline) pass(at int64) {
	n := 0
	for n < len(l.holes) && l.holes[n].to <= at {
		n++
	}
	l.holes = slices.Delete(l.holes, 0, n)
}

// close returns the mark as if nothing had ever been in the holes: when no call is booked any
// more, those behind them may as well have come at once.
func (l *timeline) close(at, mark int64) int64 {
	for _, h := range l.holes {
		mark -= max(0, h.to-max(h.from, at))
	}
	return mark
}

// unixMicro is the clock of buckets, which like internal/limiter's does not go before 1970.
func unixMicro(at time.Time) int64 { return max(0, at.UnixMicro()) }
