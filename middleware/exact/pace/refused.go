// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"context"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/internal/span"
	"github.com/tallystick/tallystick/middleware/exact"
)

// ErrImpossible says that a call uses more at once than a limit lets through at once, its
// Burst: it could wait for ever. It is [exact.ErrNotCounted].
var ErrImpossible = fmt.Errorf("%w: pace: the call costs more than a limit admits at once", exact.ErrNotCounted)

// A RefusedError says that a call would have to wait longer than it may, or that too many
// wait already. Nothing was charged: it is [exact.ErrNotCounted], and it is
// [context.DeadlineExceeded] too where it was the deadline of the context that is too early.
type RefusedError struct {
	// Name of the [Pacer].
	Name string

	// Wait is the least wait of the call.
	Wait time.Duration

	// Waiting counts the calls before it in this process.
	Waiting int

	// Full says that the queue is full, for any wait.
	Full bool

	deadline bool
}

// Error says how long the wait is, and how many wait.
func (e *RefusedError) Error() string {
	why := "longer than it may"
	switch {
	case e.Full:
		why = "the queue is full"
	case e.deadline:
		why = "longer than its context lasts"
	}
	return fmt.Sprintf("pace: %s: the call would wait %s behind %d others: %s", e.Name, span.Text(e.Wait.Round(time.Millisecond)), e.Waiting, why)
}

// Unwrap returns what the error is.
func (e *RefusedError) Unwrap() []error {
	if e.deadline {
		return []error{exact.ErrNotCounted, context.DeadlineExceeded}
	}
	return []error{exact.ErrNotCounted}
}
