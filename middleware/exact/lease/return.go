// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
)

// Refund implements [exact.Counter].
func (l *leasing) Refund(ctx context.Context, r exact.Receipt) error {
	if r.Policy == nil || r.Cost < 1 {
		return exact.ErrNoRefund
	}
	if !strings.HasPrefix(r.Serial, leasedSerial) {
		return l.engine.Refund(ctx, r)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.keys[r.Policy.AccountName(r.Key)]
	if h == nil || h.block == nil || !h.block.good(l.terms.Now()) {
		return exact.ErrNoRefund
	}
	cost, ok := h.block.out[r.Serial]
	if !ok {
		return exact.ErrNoRefund
	}
	delete(h.block.out, r.Serial)
	h.block.left += min(cost, r.Cost)
	return nil
}

// giveUp puts what is left of a block where it is given back. A charge does not come back in a
// window that is over, but in longer ones.
func (l *leasing) giveUp(h *leaseholder) {
	if h.block != nil && h.block.left > 0 {
		r := h.block.verdict.Receipt
		r.Cost = h.block.left
		l.later(r)
	}
	h.block = nil
}

// giveUpKey gives up the block of a key.
func (l *leasing) giveUpKey(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.keys[name]; h != nil {
		l.giveUp(h)
	}
}

// later has a receipt given back soon.
func (l *leasing) later(r exact.Receipt) {
	l.back = append(l.back, r)
	l.arm()
}

// arm sets the timer, if it is not set.
func (l *leasing) arm() {
	if l.timer == nil && !l.closed {
		l.tidying.Add(1)
		l.timer = time.AfterFunc(l.terms.Idle, l.tidy)
	}
}

// tidy gives back blocks not used since it last looked, and looks again later.
func (l *leasing) tidy() {
	defer l.tidying.Done()
	ctx, cancel := context.WithTimeout(context.Background(), l.terms.Idle+time.Second)
	defer cancel()
	_ = l.giveBack(ctx, l.idle(false)) // or it stays counted to the end of its window
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	if len(l.keys) > 0 || len(l.back) > 0 {
		l.arm()
	}
}

// idle gives up blocks that are idle, or all, and returns what to give back.
func (l *leasing) idle(all bool) (back []exact.Receipt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.terms.Now()
	for name, h := range l.keys {
		switch b := h.block; {
		case b == nil:
		case b.used && b.good(now) && !all:
			b.used = false
			continue
		default:
			l.giveUp(h)
		}
		if all {
			h.hasArrived()
		}
		if h.arrives == nil && (all || now.Sub(h.touched) >= l.terms.Idle) {
			delete(l.keys, name)
		}
	}
	back, l.back = l.back, nil
	return back
}

// givers is how many refunds are under way at once.
const givers = 16

// giveBack gives back to the engine.
func (l *leasing) giveBack(ctx context.Context, back []exact.Receipt) error {
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	slots := make(chan struct{}, givers)
	for _, r := range back {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := l.engine.Refund(ctx, r); err != nil && !errors.Is(err, exact.ErrNoRefund) {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close gives back what is held, and returns the errors of what it could not give
// back within five seconds. Calls after it go through.
func (l *leasing) Close() error {
	l.mu.Lock()
	l.closed = true
	if l.timer != nil && l.timer.Stop() {
		l.tidying.Done()
		l.timer = nil
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := l.giveBack(ctx, l.idle(true))
	l.tidying.Wait() // it may have taken some on its way
	return err
}

// Each implements [engine.Archive]: what is held counts as used.
func (l *leasing) Each(ctx context.Context, f func(engine.Record) error) error {
	a, ok := l.engine.(engine.Archive)
	if !ok {
		return exact.ErrNoArchive
	}
	return a.Each(ctx, f)
}

// Restore implements [engine.Archive].
func (l *leasing) Restore(ctx context.Context, r engine.Record) error {
	a, ok := l.engine.(engine.Archive)
	if !ok {
		return exact.ErrNoArchive
	}
	return a.Restore(ctx, r)
}

// Forget implements [engine.Archive]. The block of the key ends; what others hold is still admitted, up
// to a block each.
func (l *leasing) Forget(ctx context.Context, name string) error {
	a, ok := l.engine.(engine.Archive)
	if !ok {
		return exact.ErrNoArchive
	}
	l.giveUpKey(name)
	return a.Forget(ctx, name)
}
