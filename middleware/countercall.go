// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"slices"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
)

// callerOf says whether the client pays.
func (q *call) callerOf() guardedcall.Caller {
	pays := q.who.id.kind != kindAddress
	if q.exact.PayingTiers != nil {
		pays = slices.Contains(q.exact.PayingTiers, q.who.tier.name)
	}
	if pays {
		return guardedcall.Payer
	}
	return guardedcall.Stranger
}

// noteCall notes what has become of a call to the counter, and tells the log what it says of the counter.
func (q *call) noteCall(took time.Duration, outcome guardedcall.Outcome, err error) {
	guard := &q.exact.guard
	q.dc.decision.noteCall(outcome, took)
	q.checks.counterRefuses(q.at, outcome, err, guard)
	switch outcome {
	case guardedcall.Answered, guardedcall.Full, guardedcall.Contended:
		q.checks.counterAnswers(q.at, guard)
	case guardedcall.Failed:
		q.checks.warn(q.at, counterFailed, "error", err)
	case guardedcall.Down:
		q.checks.counterDown(q.at, q.exact.consequence(), err)
	}
}
