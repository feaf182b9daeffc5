package guardedcall

import (
	"sync/atomic"
	"time"
)

// A load is the calls to a counter that are out. It tells a crowd from an outage where
// a call has met its deadline:
//
//   - A counter that has answered somebody since the call set out works. A call that
//     it has no time for among more than half of InFlight met a crowd. Among fewer it
//     missed alone: the policy's choice for this request, and no sign of an outage.
//   - One that has answered nobody may have failed. But among a crowd that must have
//     lasted for a breakPause, because a flood can stop the instance itself for that
//     long, and what is idle in between has not recovered.
//
// Otherwise a client that makes an engine slow by asking it a lot could have everybody
// decided by the fallback.
type load struct {
	out     atomic.Int64
	crowds  atomic.Int64 // calls that came when more than half were out
	answers atomic.Int64
	silent  atomic.Int64 // when the first call since the last answer set out; µs since 1970, 0: none
}

// A loadSnapshot is what a call saw of the load before it set out.
type loadSnapshot struct{ crowds, answers int64 }

// enter lets a call out, if fewer than most are.
func (l *load) enter(most int64) (loadSnapshot, bool) {
	seen := loadSnapshot{l.crowds.Load(), l.answers.Load()}
	out := l.out.Add(1)
	if 2*out > most {
		l.crowds.Add(1)
	}
	if out > most {
		l.out.Add(-1)
		return seen, false
	}
	return seen, true
}

// leave notes that a call is back.
func (l *load) leave() { l.out.Add(-1) }

// answered notes that the counter has answered.
func (l *load) answered() {
	l.answers.Add(1)
	if l.silent.Load() != 0 {
		l.silent.Store(0)
	}
}

// What a missed deadline means.
type missed uint8

const (
	outage missed = iota
	alone         // no more than this request
	crowd
)

// classify says what it means that a call has met its deadline, or that the counter was
// too busy to take it.
func (l *load) classify(seen loadSnapshot, began, now time.Time, busy bool) missed {
	crowded := busy || l.crowds.Load() != seen.crowds
	if l.answers.Load() != seen.answers {
		if crowded {
			return crowd
		}
		return alone
	}
	l.silent.CompareAndSwap(0, max(1, began.UnixMicro()))
	silence := time.Duration(now.UnixMicro()-l.silent.Load()) * time.Microsecond
	if crowded && silence.Abs() < breakPause {
		return crowd
	}
	return outage
}
