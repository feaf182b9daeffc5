// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// A ledger is a counter of a few lines, to which everything can happen that
// happens to engines.
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
	l.tallies[call.Key], v.Verdict = stepsOf(call.Policy).Step(now, l.tallies[call.Key], call.Cost)
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
	v.Verdict = stepsOf(call.Policy).Peek(l.now(), l.tallies[call.Key], call.Cost)
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
	cfg.Exact = &middleware.Exact{Counter: counter, Outage: middleware.FailClosed, Deadline: 10 * time.Second}
	return cfg
}

// hasty is paid with the default deadline, 50 ms.
func hasty(c *clock, counter exact.Counter) middleware.Config {
	cfg := paid(c, counter)
	cfg.Exact.Deadline = 0
	return cfg
}

// logging has a configuration log to a buffer, which it returns.
func logging(cfg *middleware.Config) *bytes.Buffer {
	b := new(bytes.Buffer)
	cfg.Logger = slog.New(slog.NewTextHandler(afterStart{b}, nil))
	return b
}

// outage is a counter that can be down.
type outage struct {
	exact.Counter
	down bool
}

func (o *outage) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if o.down {
		return exact.Verdict{}, errEngine
	}
	return o.Counter.Take(ctx, call)
}

// heldBack holds verdicts back on their way.
type heldBack struct {
	exact.Counter
	taken   atomic.Int64
	hold    atomic.Bool
	release chan struct{}
}

func (h *heldBack) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	v, err := h.Counter.Take(ctx, call)
	h.taken.Add(1)
	if h.hold.Load() {
		<-h.release
	}
	return v, err
}

// paidRoute is an exact route, its engine, and what is logged.
func paidRoute() (c *clock, l *ledger, cfg middleware.Config, log *bytes.Buffer) {
	c = new(clock)
	l = newLedger(c)
	cfg = paid(c, l)
	return c, l, cfg, logging(&cfg)
}

// breaks has a counter fail for as long as it takes to open the breaker.
func breaks(h http.Handler, c *clock) {
	admitted(h, 5)
	c.advance(time.Second)
	admitted(h, 3)
}

func onFire(context.Context, int) error { return errEngine }
