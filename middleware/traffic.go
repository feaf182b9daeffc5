package middleware

import (
	"errors"
	"sync/atomic"
	"time"
)

// errCrowded is the outcome of a call that found no time among too many others.
var errCrowded = errors.New("the counter answers, but not so many at once")

// traffic is the calls to a counter that are out. It tells load from failure where a
// call has met its deadline:
//
//   - A counter that has answered somebody since the call set out works. A call that
//     it has no time for among more than half of InFlight is load; among fewer it is
//     the policy's choice for this request, and no sign of an outage.
//   - One that has answered nobody may have failed; but among a crowd that must have
//     lasted for a breakPause, because a flood can stop the instance itself for that
//     long, and what is idle in between has not recovered.
//
// Otherwise whoever can make an engine slow by asking it a lot could have themselves, and
// everybody, decided by the fallback.
type traffic struct {
	out     atomic.Int64
	crowds  atomic.Int64 // calls that came when more than half were out
	answers atomic.Int64
	silent  atomic.Int64 // when the first call set out that nobody was answered since; µs since 1970, 0: none
}

// A sight is what a call saw of the traffic before it set out.
type sight struct{ crowds, answers int64 }

// enter lets a call out, if fewer than most are.
func (t *traffic) enter(most int64) (sight, bool) {
	seen := sight{t.crowds.Load(), t.answers.Load()}
	out := t.out.Add(1)
	if 2*out > most {
		t.crowds.Add(1)
	}
	if out > most {
		t.out.Add(-1)
		return seen, false
	}
	return seen, true
}

// leave notes that a call is back.
func (t *traffic) leave() { t.out.Add(-1) }

// answered notes that the counter has answered.
func (t *traffic) answered() {
	t.answers.Add(1)
	if t.silent.Load() != 0 {
		t.silent.Store(0)
	}
}

// What a missed deadline means.
type missed uint8

const (
	outage  missed = iota
	unlucky        // no more than this request
	load
)

// judge says what it means that a call has met its deadline, or that the counter was
// too busy to take it.
func (t *traffic) judge(seen sight, began, now time.Time, busy bool) missed {
	crowd := busy || t.crowds.Load() != seen.crowds
	if t.answers.Load() != seen.answers {
		if crowd {
			return load
		}
		return unlucky
	}
	t.silent.CompareAndSwap(0, max(1, began.UnixMicro()))
	silence := time.Duration(now.UnixMicro()-t.silent.Load()) * time.Microsecond
	if crowd && silence.Abs() < breakPause {
		return load
	}
	return outage
}
