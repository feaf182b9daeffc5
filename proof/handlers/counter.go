// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"context"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
)

// A Ledger is a counter in memory that notes what it is asked, and to which everything can happen that happens to engines.
type Ledger struct {
	counter exact.Counter
	Now     func() time.Time

	mu      sync.Mutex
	calls   int            // that reached it
	Keys    map[string]int // and for whom
	Charged int64
	Ids     []string

	Fault func(ctx context.Context, call int) error // before a call is counted
	Lost  func(call int) bool                       // after: its answer never comes back

	PeekFault error
}

// NewLedger returns a ledger without faults.
func NewLedger(c *Clock) *Ledger {
	l := &Ledger{Now: c.Now, Keys: make(map[string]int)}
	l.Forget()
	return l
}

// Forget has all accounts deleted. No call may be under way.
func (l *Ledger) Forget() { l.counter = memory.New(0, func() time.Time { return l.Now() }) }

// Take implements [exact.Counter]. A call that was let through is counted, however late it is by then.
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
	v, err := l.counter.Take(context.WithoutCancel(ctx), call)
	l.mu.Lock()
	defer l.mu.Unlock()
	if v.Admitted && !v.Replayed {
		l.Charged += call.Cost
	}
	if l.Lost != nil && l.Lost(n) {
		return exact.Verdict{}, exact.ErrMaybeCounted
	}
	return v, err
}

func (l *Ledger) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.PeekFault != nil {
		return exact.Verdict{}, l.PeekFault
	}
	return l.counter.Peek(ctx, call)
}

func (l *Ledger) Refund(ctx context.Context, r exact.Receipt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Charged -= r.Cost
	return l.counter.Refund(ctx, r)
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
