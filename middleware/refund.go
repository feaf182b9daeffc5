package middleware

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// A charge is what [Refund] gives back.
type charge struct {
	engine  *engine
	q       *inquiry
	tally   storeless.Tally // afterwards
	receipt exact.Receipt   // zero: the counter did not answer
	refusal counterKey
}

// Refund gives back what the request was charged on a route with an [Exact]
// counter: on the counter, in memory and, while the response header is not yet
// written, in the token that goes with it. It is for a handler that could not do
// what the request has paid for, and is called on the handler's goroutine. The
// RateLimit fields still tell of the charge.
//
// It works once for each request, within the windows it was charged in; if there is
// nothing to give back, the error is [exact.ErrNoRefund]. Any other is the counter's:
// after [exact.ErrNotCounted] nothing was done, and Refund may be called again. A
// client that another instance has refused meanwhile, or that shows a token which
// says so, stays refused until the time it was told: that is what a refusal
// remembered costs.
func Refund(w http.ResponseWriter, r *http.Request) error {
	x, ok := r.Context().Value(exchangeKey{}).(*exchange)
	if !ok || x.charge == nil {
		return fmt.Errorf("%w: this request was not charged on a route with a counter, or has its charge back", exact.ErrNoRefund)
	}
	c := x.charge
	x.charge = nil
	e := c.engine
	if c.receipt != (exact.Receipt{}) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), e.exact.Deadline)
		defer cancel()
		if err := e.exact.Counter.Refund(ctx, c.receipt); err != nil {
			if errors.Is(err, exact.ErrNotCounted) {
				x.charge = c // nothing was done: ask again
			}
			return fmt.Errorf("middleware: the exact counter gave nothing back: %w", err)
		}
		e.exact.refunds.Add(1)
		e.exact.spent.forget(c.refusal)
	}
	then, f := c.q.now, e.shared(c.q)
	c.q.now, f.Shown = e.now(), c.tally
	tally := storeless.Restore(e.memory, c.q.tier.fallback, then, c.q.now, &f, x.decision.Cost)
	e.reissue(x, c.q, &tally, w.Header())
	return nil
}
