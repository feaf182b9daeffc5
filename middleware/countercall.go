// SPDX-License-Identifier: Apache-2.0

package middleware

import "github.com/tallystick/tallystick/middleware/internal/guardedcall"

// A CounterCall says what came of asking an exact counter.
type CounterCall uint8

const (
	// CallNone: it was not needed, or there is no counter.
	CallNone CounterCall = iota

	// CallAnswered: the verdict is the counter's.
	CallAnswered

	// CallBusy: the counter works, and had no place or no time for this call: load. 503.
	CallBusy

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

var callNames = [...]string{"none", "answered", "busy", "full", "contended", "skipped", "failed", "down"}

// String returns one word, such as "answered": a value for a metric.
func (c CounterCall) String() string {
	if int(c) < len(callNames) {
		return callNames[c]
	}
	return "unknown"
}

// callOf translates what the guard of the counter says.
func callOf(outcome guardedcall.Outcome) CounterCall {
	switch outcome {
	case guardedcall.Answered:
		return CallAnswered
	case guardedcall.Busy:
		return CallBusy
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
