// SPDX-License-Identifier: Apache-2.0

package guardedcall

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
)

// A Guard makes calls to one counter. Its exported fields must be set before the first
// call and do not change. It is safe for concurrent use.
type Guard struct {
	Counter  exact.Counter
	Deadline time.Duration // of each call
	InFlight int64         // calls of a part that may be out or wait at once

	parts  [maxParts]part
	strain strain
}

// maxParts is how many parts of a counter are guarded apart. If there are more, some share.
const maxParts = 32

// Take has the counter charge a call. If the answer was lost, the call is retried once
// under the same ID, so a lost packet charges once. A client that hangs up does not
// end the call, or its impatience would look like an outage: only the values of ctx
// are used. now is the time at which the request came; clock tells the time after the
// call. The error is the counter's, if it answered with one.
func (g *Guard) Take(ctx context.Context, now time.Time, clock func() time.Time, who Caller, call exact.Call) (exact.Verdict, Outcome, error) {
	return g.ask(ctx, now, clock, who, &call, func(ctx context.Context) (exact.Verdict, error) {
		v, err := g.Counter.Take(ctx, call)
		if err != nil && !errors.Is(err, exact.ErrNotCounted) && ctx.Err() == nil {
			v, err = g.Counter.Take(ctx, call)
		}
		return v, err
	})
}

// Peek asks the counter how the limits stand, and charges nothing.
func (g *Guard) Peek(ctx context.Context, now time.Time, clock func() time.Time, who Caller, call exact.Call) (exact.Verdict, Outcome, error) {
	return g.ask(ctx, now, clock, who, &call, func(ctx context.Context) (exact.Verdict, error) {
		return g.Counter.Peek(ctx, call)
	})
}

// Refuses reports whether the counter works, and most calls have met load for long: what the
// last of them met, and the counter's error.
func (g *Guard) Refuses(now time.Time) (because Outcome, err error, does bool) {
	return g.strain.refuses(now)
}

// ask makes a call, and notes what has become of it.
func (g *Guard) ask(ctx context.Context, now time.Time, clock func() time.Time, who Caller, call *exact.Call, do func(context.Context) (exact.Verdict, error)) (exact.Verdict, Outcome, error) {
	v, outcome, err := g.try(ctx, now, clock, who, call, do)
	g.strain.note(now, outcome, err)
	return v, outcome, err
}

// try makes a call if the breaker lets it through and it finds a place in time.
func (g *Guard) try(ctx context.Context, now time.Time, clock func() time.Time, who Caller, call *exact.Call, do func(context.Context) (exact.Verdict, error)) (exact.Verdict, Outcome, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.Deadline)
	defer cancel()
	p := g.part(call)
	t, outcome, err := p.enter(now, clock, who, call.Key, g.terms())
	if outcome != Answered {
		return exact.Verdict{}, outcome, err
	}
	back := lost
	defer func() { p.leave(&t, back, g.terms()) }() // deferred: engines may panic
	bell := ringAt(ctx)
	defer bell.timer.Stop()
	v, err := do(ctx)
	switch {
	case err == nil:
		back = answered
		return v, Answered, nil
	case errors.Is(err, exact.ErrFull):
		back = answered
		return v, Full, err
	case errors.Is(err, exact.ErrContended):
		back = answered
		return v, Contended, err
	}
	means := failure{why: err, began: now, ended: clock(), busy: errors.Is(err, exact.ErrBusy)}
	if means.late = ctx.Err() != nil || timedOut(err); means.late {
		back, means.delay = late, bell.delay()
	}
	return v, p.judge(&t, means, g.terms()), err
}

// Well reports whether no part of the counter is known to fail. A part without a call
// for a minute counts as well: nodes come and go.
func (g *Guard) Well(now time.Time) bool {
	for i := range g.parts {
		failed := g.parts[i].failedAt.Load()
		if ago := time.Duration(now.UnixMicro()-failed) * time.Microsecond; failed != 0 && ago.Abs() < time.Minute {
			return false
		}
	}
	return true
}

// Divided reports whether calls have gone to more than one part of the counter, so that one may fail alone.
func (g *Guard) Divided() bool {
	asked := 0
	for i := range g.parts {
		p := &g.parts[i]
		p.mu.Lock()
		if p.bound.sent > 0 {
			asked++
		}
		p.mu.Unlock()
	}
	return asked > 1
}

// Busy returns the share of its places that are taken, of the part where it is largest: by
// calls that are out or wait.
func (g *Guard) Busy() float64 {
	most := 0
	for i := range g.parts {
		p := &g.parts[i]
		p.mu.Lock()
		most = max(most, p.turns.all())
		p.mu.Unlock()
	}
	return float64(most) / float64(g.InFlight)
}

// terms are what a guard goes by.
func (g *Guard) terms() terms { return terms{deadline: g.Deadline, most: int(g.InFlight)} }

// part returns the part of the counter that a call goes to.
func (g *Guard) part(call *exact.Call) *part {
	n := 0
	if c, ok := g.Counter.(interface{ Part(exact.Call) int }); ok { // package engine calls it Partitioned
		n = c.Part(*call)
	}
	return &g.parts[uint(n)%maxParts]
}

// A bell rings at the deadline of a call. When it rings late, this process had no turn for it: no
// processor, a quota of them that was used up, a machine that was suspended. An answer may have
// been there in time. How long an engine takes to come back after that tells nothing: it may be
// saying good-bye to a server that is dead.
type bell struct {
	due   time.Time
	rang  atomic.Int64 // how late, in ns; 0: not yet
	timer *time.Timer
}

func ringAt(ctx context.Context) *bell {
	b := new(bell)
	b.due, _ = ctx.Deadline()
	b.timer = time.AfterFunc(time.Until(b.due), func() { b.rang.Store(max(1, int64(time.Since(b.due)))) })
	return b
}

// delay returns how late the bell has rung, or is by now.
func (b *bell) delay() time.Duration {
	if rang := b.rang.Load(); rang > 0 {
		return time.Duration(rang)
	}
	return max(0, time.Since(b.due))
}

// timedOut reports whether an error is about a deadline. An engine may notice it a
// moment before the context does.
func timedOut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}
