package middleware

import (
	"errors"
	"sync/atomic"
	"time"
)

// errCrowded is the outcome of a call that found no time among too many others.
var errCrowded = errors.New("the counter answers, but not so many at once")

// traffic is the calls to a counter that are out. More than are allowed are load, and
// so is a call that meets its deadline among more than half of them, while it is less
// than a breakPause that the counter has answered anybody or that it was idle: only a
// counter that is silent has failed. Otherwise whoever can make an engine slow, or the
// instance that asks it, could have himself decided by the fallback.
type traffic struct {
	out    atomic.Int64
	crowds atomic.Int64 // calls that came when more than half were out
	heard  atomic.Int64 // when an answer came, or a call while none was out; µs since 1970
}

// enter lets a call out, if fewer than most are. It returns how many crowds there were
// before it.
func (t *traffic) enter(now time.Time, most int64) (crowds int64, ok bool) {
	crowds = t.crowds.Load()
	out := t.out.Add(1)
	if out == 1 {
		t.heard.Store(now.UnixMicro())
	}
	if 2*out > most {
		t.crowds.Add(1)
	}
	if out > most {
		t.out.Add(-1)
		return crowds, false
	}
	return crowds, true
}

// leave notes that a call is back.
func (t *traffic) leave() { t.out.Add(-1) }

// answered notes that the counter has answered.
func (t *traffic) answered(now time.Time) { t.heard.Store(now.UnixMicro()) }

// crowded reports whether there was a crowd since a call entered, and the counter is
// not silent.
func (t *traffic) crowded(crowds int64, now time.Time) bool {
	silent := time.Duration(now.UnixMicro()-t.heard.Load()) * time.Microsecond
	return t.crowds.Load() != crowds && silent.Abs() < breakPause
}
