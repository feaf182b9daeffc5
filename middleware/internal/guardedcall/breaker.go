// SPDX-License-Identifier: Apache-2.0

package guardedcall

import "time"

const (
	// breakAfter failures without an answer may open the breaker. One is an accident,
	// and at two of three the third may still be the same lost packet.
	breakAfter = 5

	// breakPause is for how long many calls must have been without an answer to be an
	// outage: a flood can stop the instance itself for almost that long, and what is idle
	// in between has not recovered.
	breakPause = time.Second

	// starvedPause is the same where the instance itself is short of turns. A server that is
	// dead is found out by then, however busy its callers are.
	starvedPause = 10 * time.Second

	// probePause is how far the probes of an open breaker lie apart at most. It does
	// not grow further: a probe a second costs an engine nothing, and a long pause
	// would prolong every outage. By a second after a cure all is well: so there is
	// time left for the request that is the next probe to come, and to be answered.
	probePause = 900 * time.Millisecond
)

// A breaker keeps calls away from a counter that fails, so that an outage costs
// every request a glance and not a deadline. While it is open one call at a time goes
// through, a probe, and closes it by coming back. It needs no timer and no goroutine.
//
// Failures alone do not open it: a fork of the server, or one packet that is sent
// again, fails all calls that are out at that moment. It opens when no call was
// answered for some deadlines.
type breaker struct {
	failures int           // since the last answer
	since    int64         // when the first of them set out, in µs since 1970; 0: none
	until    int64         // of the next probe, in µs since 1970; 0: closed
	pause    time.Duration // before the next probe
}

// span is how long no call must have been answered.
func span(deadline time.Duration) time.Duration { return min(4*deadline, breakPause) }

// open reports whether the breaker is open.
func (b *breaker) open() bool { return b.until != 0 }

// admits reports whether a call may be made now. If the breaker is open the call is a probe, and
// must be followed by succeeded or failed; none goes out while it may be on its way.
func (b *breaker) admits(now time.Time, deadline time.Duration) bool {
	us := now.UnixMicro()
	// Further ahead than any pause is the mark of a clock that has stepped back.
	if ahead := time.Duration(b.until-us) * time.Microsecond; ahead > 0 && ahead <= breakPause+2*deadline {
		return false
	}
	if b.open() {
		b.until = us + (deadline + breakPause).Microseconds()
	}
	return true
}

// succeeded notes an answer, which closes the breaker.
func (b *breaker) succeeded() { *b = breaker{} }

// silent reports whether the last call that came back had failed.
func (b *breaker) silent() bool { return b.since != 0 }

// silence returns for how long calls have failed, and none was answered.
func (b *breaker) silence(now time.Time) time.Duration {
	if b.since == 0 {
		return 0
	}
	return time.Duration(now.UnixMicro()-b.since) * time.Microsecond
}

// note counts a failure. A clock that has stepped back begins the silence anew.
func (b *breaker) note(began time.Time) {
	b.failures = min(b.failures+1, breakAfter)
	if us := max(1, began.UnixMicro()); b.since == 0 || b.since > us {
		b.since = us
	}
}

// failed acts on a failure that was noted: it opens the breaker if there were enough of
// them over a span, and has the next probe of an open one wait twice as long.
func (b *breaker) failed(began, ended time.Time, deadline time.Duration) {
	switch {
	case b.open():
		b.pause = min(2*b.pause, probePause)
	case b.failures >= breakAfter && b.silence(ended) >= span(deadline):
		b.pause = min(deadline, probePause)
	default:
		return
	}
	// From probe to probe, so that a probe which hangs does not prolong the outage; but
	// one that took as long as the pause is not followed by the next at once.
	next := began.Add(b.pause)
	if rest := ended.Add(min(deadline, probePause)); rest.After(next) {
		next = rest
	}
	b.until = max(1, next.UnixMicro())
}
