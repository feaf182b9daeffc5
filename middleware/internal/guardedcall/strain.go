// SPDX-License-Identifier: Apache-2.0

package guardedcall

import (
	"math/bits"
	"sync"
	"time"
)

// A strain records what became of recent calls, second by second. A burst is load for a
// moment. Load that does not end has a cause: a throttled table, a full disk, a locked
// database. The counter answers, and refuses everything.
//
// A second without a call does not count: with little traffic, ten seconds are an hour.
type strain struct {
	mu          sync.Mutex
	began       int64 // of the second, in µs since 1970
	calls, load int
	past        uint // a bit for each second before it, set where most calls were load
	because     Outcome
	err         error
}

// Most of the last strainSeconds must be load.
const strainSeconds = 10

// note counts a call.
func (s *strain) note(now time.Time, outcome Outcome, err error) {
	load := outcome == Busy || outcome == Full || outcome == Contended
	if !load && outcome != Answered {
		return // an outage, which is told as one
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	us := now.UnixMicro()
	if ago := us - s.began; ago >= 1_000_000 || ago <= -1_000_000 { // or the clock was wrong
		s.past = s.seconds()
		s.began, s.calls, s.load = us, 0, 0
	}
	s.calls++
	if load {
		s.load++
		s.because, s.err = outcome, err
	}
}

// seconds returns the last of them, with the one that is not over.
func (s *strain) seconds() uint {
	is := uint(0)
	if 2*s.load > s.calls {
		is = 1
	}
	return (s.past<<1 | is) & (1<<strainSeconds - 1)
}

// refuses reports whether load does not end, and what the last call met. After a minute
// without a call it reports nothing.
func (s *strain) refuses(now time.Time) (because Outcome, err error, does bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ago := time.Duration(now.UnixMicro()-s.began) * time.Microsecond
	return s.because, s.err, 2*bits.OnesCount(s.seconds()) > strainSeconds && ago.Abs() < time.Minute
}
