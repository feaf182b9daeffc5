// SPDX-License-Identifier: Apache-2.0

package guardedcall

import (
	"context"
	"fmt"

	"github.com/tallystick/tallystick/middleware/exact"
)

// An Outcome says what a call came to.
type Outcome uint8

const (
	// Answered: the verdict is the counter's.
	Answered Outcome = iota

	// Busy: the counter works, and has no room or no time for this call.
	Busy

	// Full: the counter works, and has no room for a new key.
	Full

	// Contended: the counter works, and others were counted for this key each time.
	Contended

	// NotAsked: the counter fails, and is left alone until the next probe.
	NotAsked

	// Failed: this call failed. That alone is no outage.
	Failed

	// Down: this call failed, and the counter fails.
	Down
)

// String returns the word of Decision.Call.
func (o Outcome) String() string {
	return [...]string{
		Answered: "answered", Busy: "busy", Full: "full", Contended: "contended", NotAsked: "skipped", Failed: "failed", Down: "down",
	}[o]
}

// errSilent says why a call was not made, that waited for others to come back: by what became of them, if one has.
func errSilent(others error) error {
	if others == nil {
		others = context.DeadlineExceeded
	}
	return fmt.Errorf("%w: no answer to the calls before it: %v", exact.ErrNotCounted, others)
}
