// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
)

// A Pacer lets calls go at the pace of some limits, shared by all processes with the same
// limits. It is safe for concurrent use. Its goroutine runs only while the counter answers:
// there is nothing to close.
type Pacer struct{ queue queue }

// New checks a Config, and reports all its mistakes at once.
func New(cfg Config) (*Pacer, error) {
	d, err := cfg.check()
	if err != nil {
		return nil, err
	}
	return &Pacer{queue{name: cfg.Name, desk: d, maxWaiting: cfg.MaxWaiting, maxWait: cfg.MaxWait}}, nil
}

// Wait returns nil when the call may go; then it is charged. A call is one request, and costs
// tell what else it uses. Waiting calls of this process go in order of arrival.
//
// An error means that the call may not go. A [RefusedError] comes at once, if the wait would
// exceed its bound or ctx. That, [ErrImpossible], and the end of ctx during the wait are
// [exact.ErrNotCounted]: nothing is charged, and a booking goes to the next that waits here,
// or is refunded. Other errors are the counter's.
func (p *Pacer) Wait(ctx context.Context, costs ...Cost) error {
	c, err := read(p.queue.desk.units, costs)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	end, _ := ctx.Deadline()
	w, err := p.queue.join(time.Now(), end, c)
	if err != nil {
		return err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		do, at := p.queue.step(time.Now(), w)
		switch do {
		case going:
			return nil
		case leaving:
			return w.err
		case looking:
			if err := p.queue.look(ctx); err != nil {
				p.queue.leave(w)
				return err
			}
			continue
		}
		timer.Reset(time.Until(at))
		select {
		case <-timer.C:
		case <-w.news:
		case <-ctx.Done():
			p.queue.leave(w)
			return fmt.Errorf("%w: %w", exact.ErrNotCounted, ctx.Err())
		}
	}
}

// Schedule calls f when the call may go, and returns its error, or the error of
// [Pacer.Wait].
func (p *Pacer) Schedule(ctx context.Context, f func(context.Context) error, costs ...Cost) error {
	if err := p.Wait(ctx, costs...); err != nil {
		return err
	}
	return f(ctx)
}

// Pause stops all calls of all processes for d: for a service that asks to be left alone.
// Other processes know within half a second and a round trip. It adds up to a tenth at random,
// at most three seconds, because other clients were told the same. A longer pause stays. No
// pause is longer than [exact.MaxPause].
//
// [Transport] calls it for responses; call it for other protocols. An error is the counter's:
// then this process pauses, and others may not know.
func (p *Pacer) Pause(ctx context.Context, d time.Duration) error {
	if d = min(d, exact.MaxPause); d <= 0 {
		return nil
	}
	spread := min(d/10, 3*time.Second, exact.MaxPause-d)
	return p.queue.pause(ctx, d, d+rand.N(spread+1))
}
