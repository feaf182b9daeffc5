package middleware

import (
	"time"

	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/storeless"
)

// A CounterCall says what came of asking an exact counter.
type CounterCall uint8

const (
	// CallNone: it was not needed, or there is no counter.
	CallNone CounterCall = iota

	// CallAnswered: the verdict is the counter's.
	CallAnswered

	// CallCrowded: the counter works, and had no place or no time for this call: load. 503.
	CallCrowded

	// CallFull: the counter works, and has no room for a new key. 503.
	CallFull

	// CallContended: the call has lost every race for its key; see Exact.Contended.
	CallContended

	// CallSkipped: the counter does not answer, and was not asked.
	CallSkipped

	// CallFailed: this call failed, or had no answer in time. That alone is no outage.
	CallFailed

	// CallDown: the same, and it is one of an outage.
	CallDown
)

var callNames = [...]string{"none", "answered", "crowded", "full", "contended", "skipped", "failed", "down"}

// String returns one word, such as "answered": a value for a metric.
func (c CounterCall) String() string {
	if int(c) < len(callNames) {
		return callNames[c]
	}
	return "unknown"
}

// noteCall notes a call to the counter that the request has waited for.
func (d *Decision) noteCall(outcome guardedcall.Outcome, took time.Duration) {
	d.Call = callOf(outcome)
	d.statuses[callPlace].reset += uint32(took.Microseconds())
}

// callPlace is the place in a decision that says how long the counter took, in µs: with one, a
// policy has a limit less than others. A field would take every request without a counter to
// the next size of allocation.
const callPlace = storeless.MaxLimits - 1

// CallTook returns how long the request has waited for the exact counter, in line and for the
// answer, in whole microseconds; with [Concurrency] for its slot too. 0 if Call is [CallNone].
func (d Decision) CallTook() time.Duration {
	if d.Call == CallNone {
		return 0
	}
	return time.Duration(d.statuses[callPlace].reset) * time.Microsecond
}

// callOf translates what the guard of the counter says.
func callOf(outcome guardedcall.Outcome) CounterCall {
	switch outcome {
	case guardedcall.Answered:
		return CallAnswered
	case guardedcall.Crowded:
		return CallCrowded
	case guardedcall.Full:
		return CallFull
	case guardedcall.Contended:
		return CallContended
	case guardedcall.NotAsked:
		return CallSkipped
	case guardedcall.Failed:
		return CallFailed
	}
	return CallDown
}
