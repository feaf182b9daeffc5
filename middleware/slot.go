package middleware

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash/maphash"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/middleware/internal/slots"
)

// ErrHeldTooLong is the cause for which the context of a request has ended that had counted
// for as long as [Concurrency].MaxHold permits.
var ErrHeldTooLong = errors.New("middleware: the request has been served for longer than Concurrency.MaxHold")

// A gate is a compiled [Concurrency].
type gate struct {
	Concurrency
	*liveRequests
}

// LiveRequests are those that are being served. They survive Reconfigure.
type liveRequests struct {
	seed  maphash.Seed
	table slots.Table
}

// A slot is the place of a request that is being served.
type slot struct {
	once   sync.Once
	free   func()
	taken  bool               // over by the handler, together with the connection
	ends   time.Time          // of the request; zero: it may go on
	cancel context.CancelFunc // with ends
	timer  *time.Timer        // of a connection that was taken over
}

// keyOf names a tally of this process, by the bytes that no other has.
func (g *gate) keyOf(parts ...[]byte) slots.Key {
	var h maphash.Hash
	h.SetSeed(g.seed)
	for _, part := range parts {
		_, _ = h.Write(part)
	}
	return slots.Key(h.Sum64())
}

// enter finds a slot for a request before anything is charged: in the first tally that has
// one of those that it shows, and else in the one that all of its identity share. It is not
// ok if none is free, and returns the time, which is a later one if the request has waited.
func (e *engine) enter(now time.Time, r *http.Request, dc *decisionContext, who *subject, shown *credentials) (time.Time, bool) {
	g := e.gate
	if g == nil {
		return now, true
	}
	shared := g.keyOf(who.bytes)
	first, n := shared, g.maxFor(who.tier.name)
	for i := range shown.own {
		own := g.keyOf([]byte{kindOwn}, shown.own[i].own.ID[:])
		if i == 0 {
			first = own
		}
		if s := g.table.Try(now, own, n); s != nil {
			e.hold(now, dc, s)
			return now, true
		}
	}
	s := g.table.Try(now, shared, n)
	if s == nil && g.Queue > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), g.MaxHold)
		s, _ = g.table.Wait(ctx, e.now, first, n)
		cancel()
		now = e.now()
	}
	if s == nil {
		return now, false
	}
	e.hold(now, dc, s)
	return now, true
}

// hold gives the request a slot of this instance.
func (e *engine) hold(now time.Time, dc *decisionContext, s *slots.Slot) {
	g := e.gate
	own := &slot{free: func() { g.table.Leave(e.now(), s) }}
	if g.CancelHeld {
		own.endAfter(dc, g.MaxHold)
	}
	dc.withAside().slot = own
}

// enterExact leases a slot from the counter, and reports whether there is one; if not, v is
// what becomes of the request. A refusal is not remembered: nobody knows when a request is
// going to end.
func (e *engine) enterExact(now time.Time, r *http.Request, dc *decisionContext, who *subject) (v verdict, ok bool) {
	g := e.gate
	if g == nil {
		return v, true
	}
	h := sha256.New()
	h.Write([]byte("tallystick/v1/slot\x00"))
	h.Write(who.bytes)
	call := exact.Call{Key: base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16]), Cost: 1, Policy: who.tier.leases, ID: rand.Text()}
	answer, outcome, err := e.exact.guard.Take(r.Context(), now, e.now, callerOf(who), call)
	switch outcome {
	case guardedcall.Answered:
		e.report.counterAnswers()
		if !answer.Admitted {
			return tooManyAtOnce(), false
		}
		ctx, receipt := context.WithoutCancel(r.Context()), answer.Receipt
		own := &slot{free: func() {
			ctx, cancel := context.WithTimeout(ctx, e.exact.Deadline)
			defer cancel()
			lost := false
			_ = e.giveBack(ctx, receipt, &lost) // else it ends by itself
		}}
		own.endAfter(dc, g.MaxHold-leaseMargin)
		dc.withAside().slot = own
		return v, true
	case guardedcall.Full, guardedcall.Crowded:
		return overloaded(), false
	case guardedcall.Failed:
		e.report.counterFailed(now, err)
	case guardedcall.Down:
		e.report.counterDown(now, e.exact.Outage.consequence(), err)
	}
	if dc.decision.Degraded = true; e.exact.Outage == FailClosed {
		return verdict{reason: CounterDown, status: http.StatusServiceUnavailable, retryAfter: jittered(time.Second)}, false
	}
	if _, ok = e.enter(now, r, dc, who, &credentials{}); !ok {
		return tooManyAtOnce(), false
	}
	return v, true
}

// leaseMargin is how long before the end of a lease the request ends: what a handler has
// to notice it.
const leaseMargin = time.Second

// callerOf says what is known of who asks.
func callerOf(who *subject) guardedcall.Caller {
	if who.id.kind != kindAddress {
		return guardedcall.Known
	}
	return guardedcall.Stranger
}

// tooManyAtOnce is the verdict where no slot is free. When one will be is not known: the
// clients are spread over some seconds.
func tooManyAtOnce() verdict {
	return verdict{reason: TooManyAtOnce, status: http.StatusTooManyRequests, retryAfter: time.Duration(1+mathrand.Int64N(3)) * time.Second}
}

// endAfter ends the context of the request after so long.
func (s *slot) endAfter(dc *decisionContext, hold time.Duration) {
	s.ends = time.Now().Add(hold)
	dc.Context, s.cancel = context.WithDeadlineCause(dc.Context, s.ends, ErrHeldTooLong)
}

// leave gives the slot back.
func (s *slot) leave() {
	s.once.Do(func() {
		if s.cancel != nil {
			s.cancel()
		}
		if s.timer != nil {
			s.timer.Stop()
		}
		s.free()
	})
}

// A heldConn is a connection that was hijacked: the slot is its, not the handler's.
type heldConn struct {
	net.Conn
	slot *slot
}

// Close implements [net.Conn].
func (c *heldConn) Close() error {
	c.slot.leave()
	return c.Conn.Close()
}

// leaveSlot gives the slot of a request back when its handler is done, or nobody has
// called it. A connection that the handler has taken over keeps it.
func (dc *decisionContext) leaveSlot() {
	if dc.aside == nil || dc.aside.slot == nil || dc.aside.slot.taken {
		return
	}
	dc.aside.slot.leave()
}

// hijacked has a connection carry the slot of its request on. Where the request would have
// ended, the connection does: its context ends with the handler, whoever has the connection.
func (s *slot) hijacked(conn net.Conn) net.Conn {
	s.taken = true
	held := &heldConn{conn, s}
	if !s.ends.IsZero() {
		s.timer = time.AfterFunc(time.Until(s.ends), func() { _ = held.Close() })
	}
	return held
}

// refuseAtOnce concludes a request for which there is no slot. It was charged nothing, so
// there is nothing to tell, but the token of a tally that it has just bought.
func (e *engine) refuseAtOnce(now time.Time, dc *decisionContext, who *subject, shown *credentials, v verdict) {
	var tell told
	if p := &shown.proof; p.opened {
		tell.own, tell.tally, tell.paid = &shown.own[p.index].own, &shown.own[p.index].tally, true
	}
	dc.decision.conclude(&v)
	e.answer(now, dc, who, shown, tell, given{})
}
