// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"fmt"
	"net/http"

	"github.com/tallystick/tallystick/middleware/exact"
)

// Refund gives back what the request was charged: in memory, on the counter of a route
// with one and, while the response header is not yet written, in the token and the RateLimit
// fields that go with it. It is for a handler that could not do what the request has paid for,
// and is called on the handler's goroutine. A proof of work that the request has spent stays spent.
//
// It is [Settle] with a cost of 0, and there the errors are told.
func Refund(w http.ResponseWriter, r *http.Request) error { return settle(r, w, 0) }

// Settle says what the request has cost, in place of what Config.Cost said before: model
// tokens, bytes, rows. What is too much is given back, within the windows it was charged in.
// What is too little is charged, past the limit where it has no room: the client is refused until
// its limits have room again. So a limit of L admits L in a window, and on top of that what
// its requests under way were estimated too low. A bucket is owed beyond its burst, by as much at
// most as it admits in a window: what a settlement charges above that is lost; on an exact counter
// only what is above a year's. [Concurrency] bounds how many are under way.
//
// It may be called at any time, after the response too, from any goroutine. While the
// response header is not yet written, the token and the RateLimit fields that go with it say what was settled.
// After that only the memory of this instance knows. Other instances hear of what was
// charged by the client's next token from here: a client that spreads its requests over N instances
// may use up to what one that drops its tokens can, N times L. What was given back comes back to
// clients that do not show the token that went out before, which says more.
// On a route with an [Exact] counter neither matters: the counter knows.
//
// A request that cost 0 has charged nothing, and cannot be settled: estimate 1 at least. Where
// several middlewares are stacked, the innermost is meant. It works once for each request; if
// there is nothing to settle any more, or never was, the error is [exact.ErrNoRefund], and
// [exact.ErrLateRefund] where the counter was charged for this client 8192 times since. Any other
// is the counter's: after it Settle may be called again with the same cost. After [exact.ErrNotCounted] nothing was done; else the answer was
// lost, also when it was asked for once more, and the next call finds out: a counter gives a
// charge back once, however often it is asked, and knows a charge that is repeated within
// [exact.IDLife]. A client that another instance has refused meanwhile is refused there for ten
// seconds after that at most, and one that shows a token which says so for five: that is for how
// long a refusal is believed. A negative cost is an error.
func Settle(r *http.Request, cost int64) error { return settle(r, nil, cost) }

// settle settles what a request has cost.
func settle(r *http.Request, w http.ResponseWriter, cost int64) error {
	dc := contextOf(r.Context())
	if dc == nil {
		return errUncharged
	}
	return dc.settle(r.Context(), w, cost)
}

// settle settles what was decided about. The guard sees to the token that it sends; w, if
// not nil, may be of a handler that writes past it.
func (dc *decisionContext) settle(ctx context.Context, w http.ResponseWriter, cost int64) error {
	if cost < 0 {
		return fmt.Errorf("middleware: a request cannot have cost %d", cost)
	}
	e := dc.decision.engine
	if !dc.charged || !dc.settled.CompareAndSwap(false, true) {
		return errUncharged
	}
	err := e.settle(ctx, dc, w, cost)
	if again(err) {
		dc.settled.Store(false) // nothing was done, or nobody knows: ask again
	}
	return err
}

var errUncharged = fmt.Errorf("%w: this request was not charged, or is settled already", exact.ErrNoRefund)
