// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"
	"strconv"

	"github.com/tallystick/tallystick/middleware/exact"
)

// Part implements [exact.Parted].
func (c *Counter) Part(call exact.Call) int {
	if len(c.owners) == 1 || call.Policy == nil {
		return 0
	}
	return rendezvous(c.owners, call.Policy.AccountName(call.Key))
}

// Take implements [exact.Counter].
func (c *Counter) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	return c.ask(ctx, opTake, call)
}

// Peek implements [exact.Counter].
func (c *Counter) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	return c.ask(ctx, opPeek, call)
}

func (c *Counter) ask(ctx context.Context, op string, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	return c.owners[c.Part(call)].calls.do(&waiter{ctx: ctx, op: op, call: call})
}

// Refund implements [exact.Counter].
func (c *Counter) Refund(ctx context.Context, r exact.Receipt) error {
	if r.Policy == nil || r.Serial == "" || r.Cost < 1 {
		return exact.ErrNoRefund
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	w := &waiter{ctx: ctx, op: opRefund, call: exact.Call{Key: r.Key, Cost: r.Cost, Policy: r.Policy}}
	w.receipt = &receipt{r.Serial, strconv.FormatInt(r.At.UnixNano(), 10)}
	_, err := c.owners[c.Part(w.call)].refunds.do(w)
	return err
}
