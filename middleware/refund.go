package middleware

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/storeless"
)

// Refund gives back what the request was charged on a route with an [Exact]
// counter: on the counter, in memory and, while the response header is not yet
// written, in the token that goes with it. It is for a handler that could not do
// what the request has paid for, and is called on the handler's goroutine. The
// RateLimit fields still tell of the charge.
//
// It works once for each request, within the windows it was charged in; if there is
// nothing to give back, the error is [exact.ErrNoRefund]. Any other is the counter's:
// after it Refund may be called again. After [exact.ErrNotCounted] nothing was done; else
// the answer was lost, also when it was asked for once more, and the next call finds out:
// a counter gives a charge back once, however often it is asked. A
// client that another instance has refused meanwhile, or that shows a token which
// says so, stays refused until the time it was told: that is what a refusal
// remembered costs.
func Refund(w http.ResponseWriter, r *http.Request) error {
	dc := contextOf(r.Context())
	if dc == nil || dc.aside == nil || dc.aside.refund == nil {
		return fmt.Errorf("%w: this request was not charged on a route with a counter, or has its charge back", exact.ErrNoRefund)
	}
	giveBack := dc.aside.refund
	dc.aside.refund = nil
	err := giveBack(r.Context(), w.Header())
	if err != nil && !errors.Is(err, exact.ErrNoRefund) {
		dc.aside.refund = giveBack // nothing was done, or nobody knows: ask again
	}
	return err
}

// refundOf returns what gives a charge back that was made at then. tally is what counts
// after it. The receipt is zero where the counter did not answer.
func (e *engine) refundOf(then time.Time, dc *decisionContext, who subject, tally storeless.Tally, refusal guardedcall.Key, receipt exact.Receipt) refund {
	lost := false // an answer: it may have been given back
	return func(ctx context.Context, h http.Header) error {
		if receipt != (exact.Receipt{}) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.exact.Deadline)
			defer cancel()
			if err := e.giveBack(ctx, receipt, &lost); err != nil {
				return fmt.Errorf("middleware: the exact counter gave nothing back: %w", err)
			}
			e.exact.refunds.Add(1)
			e.exact.refusals.Forget(refusal)
		}
		now, f := e.now(), e.sharedCandidate(&who, &credentials{shared: tally})
		tally := e.memory.Restore(now, then, who.tier.fallback, &f, dc.decision.Cost)
		e.reissue(now, dc, &who, &tally, h)
		return nil
	}
}

// giveBack has the counter give a charge back. If the answer is lost it asks once more, as
// for a charge. Where an answer was lost before, here or by the caller's last attempt,
// nothing to give back means that it was given back then.
func (e *engine) giveBack(ctx context.Context, receipt exact.Receipt, lost *bool) error {
	for first := true; ; first = false {
		err := e.exact.Counter.Refund(ctx, receipt)
		switch {
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

// reissue puts the token that says tally in the place of the one that was issued
// with the decision, wherever that stands. A tally that has counted nothing has
// no token; then none is sent.
func (e *engine) reissue(now time.Time, dc *decisionContext, who *subject, tally *storeless.Tally, h http.Header) {
	tok := who.appendToken(nil, nil, tally)
	var cookie []byte
	if len(tok) > 0 {
		cookie = e.appendCookie(nil, tok, e.carried.Expires(*tally)-now.Unix())
	}
	dc.reply.Fields.ReplaceToken(h, string(tok), string(cookie))
}
