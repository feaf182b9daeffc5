// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"context"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// A Ledger is a counter of a few lines, to which everything can happen that happens to engines.
type Ledger struct {
	Now func() time.Time

	mu       sync.Mutex
	Tallies  map[string]limiter.Tally
	verdicts map[string]exact.Verdict // by call ID
	refunded map[time.Time]bool
	calls    int            // that reached it
	Keys     map[string]int // and for whom
	Charged  int64
	Ids      []string

	Fault func(ctx context.Context, call int) error // before a call is counted
	Lost  func(call int) bool                       // after: its answer never comes back

	PeekFault error
}

// NewLedger returns a ledger without faults.
func NewLedger(c *Clock) *Ledger {
	return &Ledger{
		Now:      c.Now,
		Tallies:  make(map[string]limiter.Tally),
		verdicts: make(map[string]exact.Verdict),
		refunded: make(map[time.Time]bool),
		Keys:     make(map[string]int),
	}
}

func (l *Ledger) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	l.mu.Lock()
	l.calls++
	n := l.calls
	l.Keys[call.Key]++
	l.Ids = append(l.Ids, call.ID)
	l.mu.Unlock()
	if l.Fault != nil {
		if err := l.Fault(ctx, n); err != nil {
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
	if l.Lost != nil && l.Lost(n) {
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
	steps, err := limiter.Compile(p.Name(), limiter.Carried(p.Name(), limits))
	if err != nil {
		panic(err)
	}
	return steps
}

func (l *Ledger) step(call exact.Call) (v exact.Verdict) {
	now := l.Now()
	tally, is := stepsOf(call.Policy).Step(now, l.Tallies[call.Key], call.Cost)
	l.Tallies[call.Key], v.Verdict = tally, limiter.VerdictAs[storeless.Verdict](is)
	if v.Admitted {
		l.Charged += call.Cost
		v.Receipt = exact.Receipt{Key: call.Key, Cost: call.Cost, Policy: call.Policy, At: now, Serial: call.ID}
	}
	return v
}

func (l *Ledger) Peek(_ context.Context, call exact.Call) (v exact.Verdict, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.PeekFault != nil {
		return v, l.PeekFault
	}
	v.Verdict = limiter.VerdictAs[storeless.Verdict](stepsOf(call.Policy).Peek(l.Now(), l.Tallies[call.Key], call.Cost))
	return v, nil
}

func (l *Ledger) Refund(_ context.Context, r exact.Receipt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := limiter.Candidate{Shown: l.Tallies[r.Key]}
	l.Tallies[r.Key] = (*limiter.Memory)(nil).Restore(l.Now(), r.At, stepsOf(r.Policy), &f, r.Cost)
	l.Charged -= r.Cost
	return nil
}

func (l *Ledger) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// Paid is Contact on an exact route. Its deadline is the longest there is: a busy machine
// is no outage. Tests of the default deadline are in bubbles.
func Paid(c *Clock, counter exact.Counter) middleware.Config {
	cfg := Contact(c)
	cfg.Exact = Counting(counter)
	return cfg
}

// Counting fails closed, with a deadline that a busy machine does not meet.
func Counting(counter exact.Counter) *middleware.Exact {
	return &middleware.Exact{Counter: counter, Outage: middleware.FailClosed, Deadline: 10 * time.Second}
}

// An Altered counter does something else in the place of Take or Refund, where that is set.
type Altered struct {
	exact.Counter
	OnTake   func(context.Context, exact.Call) (exact.Verdict, error)
	OnRefund func(context.Context, exact.Receipt) error
}

func (a *Altered) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if a.OnTake != nil {
		return a.OnTake(ctx, call)
	}
	return a.Counter.Take(ctx, call)
}

func (a *Altered) Refund(ctx context.Context, r exact.Receipt) error {
	if a.OnRefund != nil {
		return a.OnRefund(ctx, r)
	}
	return a.Counter.Refund(ctx, r)
}
