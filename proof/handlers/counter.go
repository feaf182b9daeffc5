// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"context"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// Paid is Contact on an exact route. Its deadline is the longest there is: a busy machine
// is no outage. Tests of the default deadline are in bubbles.
func Paid(c *Clock, counter exact.Counter) middleware.Config {
	cfg := Contact(c)
	cfg.Exact = Counting(counter)
	return cfg
}

// Counting fails closed, with a deadline that a busy machine does not meet.
func Counting(counter exact.Counter) *middleware.Exact {
	return &middleware.Exact{Counter: counter, Outage: middleware.FailClosed, Deadline: 10 * time.Second}
}

// An Altered counter does something else in the place of Take or Refund, where that is set.
type Altered struct {
	exact.Counter
	OnTake   func(context.Context, exact.Call) (exact.Verdict, error)
	OnRefund func(context.Context, exact.Receipt) error
}

func (a *Altered) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if a.OnTake != nil {
		return a.OnTake(ctx, call)
	}
	return a.Counter.Take(ctx, call)
}

func (a *Altered) Refund(ctx context.Context, r exact.Receipt) error {
	if a.OnRefund != nil {
		return a.OnRefund(ctx, r)
	}
	return a.Counter.Refund(ctx, r)
}
