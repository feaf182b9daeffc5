// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/middleware/internal/slots"
)

// enterExact leases a slot from the counter, and reports whether there is one; if not, v is
// what becomes of the request. A refusal is not remembered: nobody knows when a request is
// going to end.
func (e *engine) enterExact(now time.Time, q *question, dc *decisionContext, who *subject) (v verdict, ok bool) {
	g := e.gate
	if g == nil || q.r == nil {
		return v, true
	}
	h := sha256.New()
	h.Write([]byte("tallystick/v1/slot\x00"))
	h.Write(who.bytes)
	call := exact.Call{Key: base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16]), Cost: 1, Policy: who.tier.leases, ID: rand.Text()}
	began := time.Now()
	answer, outcome, err := e.exact.guard.Take(q.ctx, now, e.now, e.exact.callerOf(who), call)
	dc.decision.noteCall(outcome, time.Since(began))
	e.report.counterRefuses(now, outcome, err, &e.exact.guard)
	otherwise := e.exact.Outage
	switch outcome {
	case guardedcall.Answered:
		e.report.counterAnswers(now, &e.exact.guard)
		if !answer.Admitted {
			return tooManyAtOnce(), false
		}
		ctx, receipt := context.WithoutCancel(q.ctx), answer.Receipt
		own := slots.NewPlace(func() {
			ctx, cancel := context.WithTimeout(ctx, e.exact.Deadline)
			defer cancel()
			lost := false
			_ = e.giveBack(ctx, receipt, &lost) // else it ends by itself
		})
		if !e.shadow {
			dc.Context = own.EndAfter(dc.Context, g.MaxHold-leaseMargin, ErrHeldTooLong)
		}
		dc.decision.withAside().place = own
		return v, true
	case guardedcall.Contended:
		e.report.counterAnswers(now, &e.exact.guard)
		if otherwise = e.exact.Contended; otherwise != FailOpen {
			return overloaded(), false
		}
	case guardedcall.Full, guardedcall.Busy:
		return overloaded(), false
	case guardedcall.Failed:
		e.report.counterFailed(now, err)
	case guardedcall.Down:
		e.report.counterDown(now, e.exact.Outage.consequence(), err)
	}
	if dc.decision.Degraded = true; otherwise == FailClosed {
		return counterDown(), false
	}
	if _, ok = e.enter(now, q, dc, who, &credentials{}); !ok {
		return tooManyAtOnce(), false
	}
	return v, true
}

// leaseMargin is how long before the end of a lease the request ends: what a handler has
// to notice it.
const leaseMargin = time.Second

// callerOf says whether who asks pays.
func (x *exactCounter) callerOf(who *subject) guardedcall.Caller {
	pays := who.id.kind != kindAddress
	if x.PayingTiers != nil {
		pays = slices.Contains(x.PayingTiers, who.tier.name)
	}
	if pays {
		return guardedcall.Payer
	}
	return guardedcall.Stranger
}
