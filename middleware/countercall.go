// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
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

// settleCounted changes what the counter has charged on some limits. What comes back no more on one of them is charged on another
// all the same, and then told.
func (x *exactCounter) settleCounted(ctx context.Context, c *exactCharge, limits uint8, more, less exact.Call) error {
	if c.receipt == (exact.Receipt{}) {
		return nil
	}
	t := c.tries[limits]
	if t == nil {
		t = new(try)
		if c.tries == nil {
			c.tries = make(map[uint8]*try)
		}
		c.tries[limits] = t
	}
	if less.Cost > 0 && !t.back {
		receipt := c.receipt
		receipt.Cost, receipt.Costs = less.Cost, less.Costs
		err := x.giveBack(ctx, receipt, &t.lost)
		if err != nil {
			err = fmt.Errorf("middleware: the exact counter gave nothing back: %w", err)
		} else {
			x.refusals.Forget(c.refusal)
		}
		if again(err) {
			return err
		}
		t.back, t.late = true, err
	}
	if more.Cost > 0 {
		if err := x.chargePast(ctx, t, c.call, more); err != nil {
			return err
		}
	}
	return t.late
}

// chargePast has the counter charge more, whether or not there is room. It is the same
// call however often it is repeated.
func (x *exactCounter) chargePast(ctx context.Context, t *try, call, more exact.Call) error {
	if t.call.ID == "" {
		t.call = call
		t.call.ID, t.call.Cost, t.call.Costs, t.call.Past = rand.Text(), more.Cost, more.Costs, true
	}
	_, err := x.Counter.Take(ctx, t.call)
	if err != nil && !errors.Is(err, exact.ErrNotCounted) && ctx.Err() == nil {
		_, err = x.Counter.Take(ctx, t.call)
	}
	if err != nil {
		return fmt.Errorf("middleware: the exact counter did not charge what was settled: %w", err)
	}
	return nil
}

// giveBack has the counter give a charge back. If the answer is lost it asks once more, as for a
// charge. Where an answer was lost before, here or by the caller's last attempt, nothing to give
// back means that it was given back then. LateRefunds counts refunds that come too late.
func (x *exactCounter) giveBack(ctx context.Context, receipt exact.Receipt, lost *bool) error {
	for first := true; ; first = false {
		err := x.Counter.Refund(ctx, receipt)
		switch {
		case errors.Is(err, exact.ErrLateRefund):
			x.lateRefunds.Add(1)
			return err
		case err == nil, *lost && errors.Is(err, exact.ErrNoRefund):
			return nil
		case errors.Is(err, exact.ErrNotCounted), errors.Is(err, exact.ErrNoRefund):
			return err
		}
		*lost = true
		if !first || ctx.Err() != nil {
			return err
		}
	}
}

// again reports whether what has failed with err may be tried again.
func again(err error) bool { return err != nil && !errors.Is(err, exact.ErrNoRefund) }
