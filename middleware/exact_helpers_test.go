// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// A ledger is a counter of a few lines, to which everything can happen that happens to engines.
type ledger struct {
	now func() time.Time

	mu       sync.Mutex
	tallies  map[string]limiter.Tally
	verdicts map[string]exact.Verdict // by call ID
	refunded map[time.Time]bool
	calls    int            // that reached it
	keys     map[string]int // and for whom
	charged  int64
	ids      []string

	fault func(ctx context.Context, call int) error // before a call is counted
	lost  func(call int) bool                       // after: its answer never comes back

	peekFault error
}

var errEngine = errors.New("engine on fire")

func newLedger(c *clock) *ledger {
	return &ledger{
		now:      c.Now,
		tallies:  make(map[string]limiter.Tally),
		verdicts: make(map[string]exact.Verdict),
		refunded: make(map[time.Time]bool),
		keys:     make(map[string]int),
	}
}

func (l *ledger) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	l.mu.Lock()
	l.calls++
	n := l.calls
	l.keys[call.Key]++
	l.ids = append(l.ids, call.ID)
	l.mu.Unlock()
	if l.fault != nil {
		if err := l.fault(ctx, n); err != nil {
			return exact.Verdict{}, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	v, known := l.verdicts[call.ID]
	if v.Replayed = known; !known {
		v = l.step(call)
		l.verdicts[call.ID] = v
	}
	if l.lost != nil && l.lost(n) {
		return exact.Verdict{}, exact.ErrMaybeCounted
	}
	return v, nil
}

// stepsOf is the arithmetic of a counter's policy, where a sliding window stands for a log.
func stepsOf(p *exact.Policy) *limiter.Policy {
	limits := make([]storeless.Limit, p.Len())
	for i := range limits {
		limits[i] = p.Limit(i)
	}
	steps, err := limiter.Compile(p.Name(), limiter.Carried(limits))
	if err != nil {
		panic(err)
	}
	return steps
}

func (l *ledger) step(call exact.Call) (v exact.Verdict) {
	now := l.now()
	tally, is := stepsOf(call.Policy).Step(now, l.tallies[call.Key], call.Cost)
	l.tallies[call.Key], v.Verdict = tally, limiter.VerdictAs[storeless.Verdict](is)
	if v.Admitted {
		l.charged += call.Cost
		v.Receipt = exact.Receipt{Key: call.Key, Cost: call.Cost, Policy: call.Policy, At: now, Serial: call.ID}
	}
	return v
}

func (l *ledger) Peek(_ context.Context, call exact.Call) (v exact.Verdict, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.peekFault != nil {
		return v, l.peekFault
	}
	v.Verdict = limiter.VerdictAs[storeless.Verdict](stepsOf(call.Policy).Peek(l.now(), l.tallies[call.Key], call.Cost))
	return v, nil
}

func (l *ledger) Refund(_ context.Context, r exact.Receipt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := limiter.Candidate{Shown: l.tallies[r.Key]}
	l.tallies[r.Key] = (*limiter.Memory)(nil).Restore(l.now(), r.At, stepsOf(r.Policy), &f, r.Cost)
	l.charged -= r.Cost
	return nil
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// paid is contact on an exact route. Its deadline is the longest there is: a busy machine
// is no outage. Tests of the default are in bubbles, by [hasty].
func paid(c *clock, counter exact.Counter) middleware.Config {
	cfg := contact(c)
	cfg.Exact = counting(counter)
	return cfg
}

// counting fails closed, with a deadline that a busy machine does not meet.
func counting(counter exact.Counter) *middleware.Exact {
	return &middleware.Exact{Counter: counter, Outage: middleware.FailClosed, Deadline: 10 * time.Second}
}

// hasty is paid with the default deadline, 50 ms.
func hasty(c *clock, counter exact.Counter) middleware.Config {
	cfg := paid(c, counter)
	cfg.Exact.Deadline = 0
	return cfg
}

// An altered counter does something else in the place of Take or Refund, where that is set.
type altered struct {
	exact.Counter
	take   func(context.Context, exact.Call) (exact.Verdict, error)
	refund func(context.Context, exact.Receipt) error
}

func (a *altered) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if a.take != nil {
		return a.take(ctx, call)
	}
	return a.Counter.Take(ctx, call)
}

func (a *altered) Refund(ctx context.Context, r exact.Receipt) error {
	if a.refund != nil {
		return a.refund(ctx, r)
	}
	return a.Counter.Refund(ctx, r)
}

// never answers, until the caller has had enough.
func never(ctx context.Context, _ exact.Call) (exact.Verdict, error) {
	<-ctx.Done()
	return exact.Verdict{}, fmt.Errorf("%w: %w", exact.ErrMaybeCounted, ctx.Err())
}

// notTaken is a call that fails at once, and notRefunded a refund.
func notTaken(err error) func(context.Context, exact.Call) (exact.Verdict, error) {
	return func(context.Context, exact.Call) (exact.Verdict, error) { return exact.Verdict{}, err }
}

func notRefunded(err error) func(context.Context, exact.Receipt) error {
	return func(context.Context, exact.Receipt) error { return err }
}

// paidRoute is an exact route, and its engine.
func paidRoute() (c *clock, l *ledger, cfg middleware.Config) {
	c = new(clock)
	l = newLedger(c)
	return c, l, paid(c, l)
}

// breaks has a counter fail for as long as it takes to open the breaker.
func breaks(h http.Handler, c *clock) {
	admitted(h, 5)
	c.advance(time.Second)
	admitted(h, 3)
}

func onFire(context.Context, int) error { return errEngine }

func paidSite(t testing.TB) (c *clock, l *ledger, h *site) {
	t.Helper()
	c, l, cfg := paidRoute()
	return c, l, newSite(t, cfg)
}
