package guardedcall

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
)

// A Guard makes calls to one counter. Its exported fields must be set before the first
// call and do not change. It is safe for concurrent use.
type Guard struct {
	Counter  exact.Counter
	Deadline time.Duration // of each call
	InFlight int64         // calls that may be out at once

	breaker breaker
	load    load
}

// An Outcome says what a call came to.
type Outcome uint8

const (
	// Answered: the verdict is the counter's.
	Answered Outcome = iota

	// Crowded: the counter works, and has no room or no time for this call.
	Crowded

	// Full: the counter works, and has no room for a new key.
	Full

	// NotAsked: the counter fails, and is left alone until the next probe.
	NotAsked

	// Failed: this call failed. That alone is no outage.
	Failed

	// Down: this call failed, and the counter fails.
	Down
)

// Take has the counter charge a call. If the answer was lost, the call is made once
// more under the same ID: nobody is charged twice for a packet. A client that hangs up
// does not end it, or its impatience would be taken for an outage: only the values of
// ctx are used. now is the time at which the request came; clock tells the time after
// the call. The error is that of the counter, with Failed and Down alone.
func (g *Guard) Take(ctx context.Context, now time.Time, clock func() time.Time, call exact.Call) (exact.Verdict, Outcome, error) {
	return g.ask(ctx, now, clock, func(ctx context.Context) (exact.Verdict, error) {
		v, err := g.Counter.Take(ctx, call)
		if err != nil && !errors.Is(err, exact.ErrNotCounted) && ctx.Err() == nil {
			v, err = g.Counter.Take(ctx, call)
		}
		return v, err
	})
}

// Peek asks the counter how the limits stand, and charges nothing.
func (g *Guard) Peek(ctx context.Context, now time.Time, clock func() time.Time, call exact.Call) (exact.Verdict, Outcome, error) {
	return g.ask(ctx, now, clock, func(ctx context.Context) (exact.Verdict, error) {
		return g.Counter.Peek(ctx, call)
	})
}

// ask makes a call if there is room for one more and the breaker lets it through.
func (g *Guard) ask(ctx context.Context, now time.Time, clock func() time.Time, call func(context.Context) (exact.Verdict, error)) (exact.Verdict, Outcome, error) {
	seen, ok := g.load.enter(g.InFlight)
	if !ok {
		return exact.Verdict{}, Crowded, nil
	}
	defer g.load.leave()
	if !g.breaker.admits(now) {
		return exact.Verdict{}, NotAsked, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.Deadline)
	defer cancel()
	v, err := call(ctx)
	full := errors.Is(err, exact.ErrFull)
	if err != nil && !full {
		return v, g.failure(now, clock, seen, err, ctx.Err() != nil), err
	}
	g.load.answered()
	g.breaker.succeeded()
	if full {
		return v, Full, nil
	}
	return v, Answered, nil
}

// failure says what it means that a call has failed.
func (g *Guard) failure(now time.Time, clock func() time.Time, seen loadSnapshot, err error, late bool) Outcome {
	means, busy := outage, errors.Is(err, exact.ErrBusy)
	if busy || late || timedOut(err) {
		means = g.load.classify(seen, now, clock(), busy)
	}
	switch means {
	case crowd:
		return Crowded
	case outage:
		g.breaker.failed(now)
	}
	if g.breaker.open() {
		return Down
	}
	return Failed
}

// timedOut reports whether an error is about a deadline. An engine may notice it a
// moment before the context does.
func timedOut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}
