package middleware

import (
	"errors"
	"sync/atomic"
)

// errCrowded is the outcome of a call that found no time among too many others.
var errCrowded = errors.New("the counter answers, but not so many at once")

// traffic is the calls to a counter that are out. More than are allowed are load, and
// so is a call that meets its deadline among more than half of them while the counter
// answers others: only a counter that answers nobody has failed. Otherwise whoever can
// make an engine slow by asking it a lot could have himself decided by the fallback.
type traffic struct {
	out     atomic.Int64
	crowds  atomic.Int64 // calls that came when more than half were out
	answers atomic.Int64
}

// A sight is what a call saw of the traffic before it entered.
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
func (t *traffic) leave(answered bool) {
	if answered {
		t.answers.Add(1)
	}
	t.out.Add(-1)
}

// crowded reports whether there was a crowd since a call entered, and somebody was
// answered.
func (t *traffic) crowded(since sight) bool {
	return t.crowds.Load() != since.crowds && t.answers.Load() != since.answers
}
