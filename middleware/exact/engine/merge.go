// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/internal/patience"
)

// A Batcher is an [exact.Counter] that can take several calls in one go, which is what
// [Merge] needs of an engine.
type Batcher interface {
	exact.Counter

	// TakeAll takes calls that differ in nothing but their ID, one after the other
	// as Take would, as one atomic step: an ID that occurs twice is counted once, and of
	// calls with Ahead each is booked behind the one before. It returns a verdict for each,
	// or an error that is about all of them: [exact.ErrNotCounted] only if none was charged. They
	// are at most 256.
	TakeAll(ctx context.Context, calls []exact.Call) ([]exact.Verdict, error)
}

// maxMerged is how many calls [Merge] makes one of at most.
const maxMerged = 256

// Merge makes one call of concurrent calls for the same key that differ in nothing but their ID. It
// is as exact as its engine and holds nothing back: the first call goes through at once, and calls
// that come while it is out leave together when it is back, or when it has been out for a third of
// the time that it had until its deadline. A hot key then costs as many round trips as fit one
// after the other, or four at once, not one for each call. A call takes two round trips at most;
// where they are long, one and a third of the deadline. So a deadline of one round trip and a half
// is kept.
//
// Calls that wait are not counted yet: one whose context ends then returns
// [exact.ErrNotCounted]. A goroutine runs for a key as long as calls wait for it.
//
// It panics if engine is nil.
func Merge(engine Batcher) exact.Counter {
	if engine == nil {
		panic("engine: Merge needs a Batcher")
	}
	return &merged{Batcher: engine, queues: make(map[exact.Call]*queue)}
}

type merged struct {
	Batcher
	mu     sync.Mutex
	queues map[exact.Call]*queue // of what calls are out for, without their IDs
}

// Part implements [Partitioned].
func (m *merged) Part(call exact.Call) int {
	if parted, ok := m.Batcher.(Partitioned); ok {
		return parted.Part(call)
	}
	return 0
}

// Deadline returns the deadline that the engine names for its calls, or 0.
func (m *merged) Deadline() time.Duration {
	if slow, ok := m.Batcher.(interface{ Deadline() time.Duration }); ok {
		return slow.Deadline()
	}
	return 0
}

// maxApart is how many calls for one key are out at once at most: one each third of the
// deadline, and one that has missed it.
const maxApart = 4

// A queue holds the calls that leave next.
type queue struct {
	waiting []*waiter
	out     int           // calls
	left    time.Time     // when the last of them did
	patient time.Duration // the longest that the next wait for it; 0: without end
	timer   *time.Timer   // of the next; nil: none waits for it
}

// leaves notes that a call goes out by a deadline, if it has one.
func (q *queue) leaves(ctx context.Context) {
	q.out++
	q.left, q.patient = time.Now(), 0
	if end, ok := ctx.Deadline(); ok {
		q.patient = max(1, end.Sub(q.left)/3)
	}
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
}

type waiter struct {
	ctx  context.Context
	call exact.Call
	done chan outcome // of one: a waiter that has left does not read it
}

type outcome struct {
	verdict exact.Verdict
	err     error
}

// Take implements [exact.Counter].
func (m *merged) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	k := call
	k.ID = ""
	m.mu.Lock()
	q, out := m.queues[k]
	if !out {
		q = new(queue)
		q.leaves(ctx)
		m.queues[k] = q
		m.mu.Unlock()
		defer m.next(k)
		return m.Batcher.Take(ctx, call)
	}
	w := &waiter{ctx, call, make(chan outcome, 1)}
	q.waiting = append(q.waiting, w)
	m.arm(k, q)
	m.mu.Unlock()
	select {
	case o := <-w.done:
		return o.verdict, o.err
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(q.waiting, w); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return exact.Verdict{}, fmt.Errorf("%w: %w", exact.ErrNotCounted, ctx.Err())
	}
	return exact.Verdict{}, fmt.Errorf("%w: %w", exact.ErrMaybeCounted, ctx.Err())
}

// arm has the waiters go without the call that is out, when that takes long. m.mu is held.
func (m *merged) arm(k exact.Call, q *queue) {
	if q.timer != nil || q.patient == 0 || q.out >= maxApart || len(q.waiting) == 0 {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(time.Until(q.left.Add(q.patient)), func() {
		m.mu.Lock()
		current := q.timer == timer
		var b *batch
		if current {
			q.timer = nil
			b = m.board(k, q)
		}
		m.mu.Unlock()
		m.sendAll(k, b)
	})
	q.timer = timer
}

// next sends the waiters for a call that is back, if there are any.
func (m *merged) next(k exact.Call) {
	if b := m.back(k); b != nil {
		go m.sendAll(k, b)
	}
}

// sendAll sends a batch, then the waiters that came meanwhile, until there are none.
func (m *merged) sendAll(k exact.Call, b *batch) {
	for ; b != nil; b = m.back(k) {
		m.send(b)
	}
}

// back notes that a call is back, and takes the next batch from the queue, or closes the queue of a
// key without waiters.
func (m *merged) back(k exact.Call) *batch {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queues[k]
	q.out--
	b := m.board(k, q)
	if q.out == 0 {
		delete(m.queues, k)
	}
	return b
}

// A batch holds waiters that leave together.
type batch struct {
	waiters []*waiter
	ctx     context.Context
	cancel  context.CancelFunc
}

// board takes the next batch from the queue, if any waiter is there. m.mu is held.
func (m *merged) board(k exact.Call, q *queue) *batch {
	n := min(len(q.waiting), maxMerged)
	if n == 0 {
		return nil
	}
	b := &batch{waiters: slices.Clone(q.waiting[:n])}
	contexts := make([]context.Context, n)
	for i, w := range b.waiters {
		contexts[i] = w.ctx
	}
	b.ctx, b.cancel = patience.Most(contexts)
	q.waiting = slices.Delete(q.waiting, 0, n)
	q.leaves(b.ctx)
	m.arm(k, q)
	return b
}

// send makes one call of a batch. A waiter with less patience than the others leaves.
func (m *merged) send(b *batch) {
	defer b.cancel()
	calls := make([]exact.Call, len(b.waiters))
	for i, w := range b.waiters {
		calls[i] = w.call
	}
	verdicts, err := m.takeAll(b.ctx, calls)
	if err == nil && len(verdicts) != len(calls) {
		err = fmt.Errorf("%w: %d verdicts for %d calls", exact.ErrMaybeCounted, len(verdicts), len(calls))
	}
	for i, w := range b.waiters {
		o := outcome{err: err}
		if err == nil {
			o.verdict = verdicts[i]
		}
		w.done <- o
	}
}

// takeAll makes an error of a panic of the engine, which in a request's own goroutine
// would end that request, and here the program.
func (m *merged) takeAll(ctx context.Context, calls []exact.Call) (verdicts []exact.Verdict, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: the engine panics: %v", exact.ErrMaybeCounted, r)
		}
	}()
	return m.TakeAll(ctx, calls)
}
