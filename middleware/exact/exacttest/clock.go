// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"sync/atomic"
	"time"
)

// A Clock is moved by hand. It starts at a boundary of all windows that divide a
// day. Safe for concurrent use.
type Clock struct{ offset atomic.Int64 }

// NewClock returns a clock that stands still.
func NewClock() *Clock { return new(Clock) }

// Now returns the time.
func (c *Clock) Now() time.Time {
	return time.Unix(20_000*86_400, 0).Add(time.Duration(c.offset.Load()))
}

// Advance moves the clock, back if by is negative.
func (c *Clock) Advance(by time.Duration) { c.offset.Add(int64(by)) }
