// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"time"

	"github.com/tallystick/tallystick/middleware/internal/slots"
)

// In WhenBusy a token of the shared tally is of no use while the instance is busy. To
// honour it would exempt those who have made it busy, of all clients: they were admitted, so
// each of their addresses has one. What it has counted stays, in it and in memory.

// workFirst reports whether a client that has no tally of its own proves work first. For a
// request this is decided once, when it is charged. Whether it may stand in line before that,
// and what the endpoint tells a page, are guesses: in between the answer may change.
func (c *challenger) workFirst(now time.Time) bool {
	return c.mode == Newcomers || c.mode == WhenBusy && c.load.Busy(now, c.busyAt)
}

// noteLoad counts a request that was admitted. What was refused is none of the load: else a
// flood of what costs its sender nothing would keep the instance busy. What costs 0 is
// not either: anybody may send any number.
func (c *challenger) noteLoad(now time.Time, q *question, dc *decisionContext, who *subject, charge *charged) {
	if c.mode != WhenBusy || !charge.verdict.Admitted || who.dry || dc.decision.Cost == 0 {
		return
	}
	c.load.Admit(now, c.busyAt)
	if c.busyAt.AtOnce == 0 || q.r == nil {
		return
	}
	c.load.Begin()
	if a := dc.decision.withAside(); a.place == nil {
		a.place = slots.NewPlace(c.load.End)
	} else {
		a.place.Also(c.load.End)
	}
}
