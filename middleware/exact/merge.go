package exact

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// A Batcher is a [Counter] that can take several calls in one go, which is what
// [Merge] needs of an engine.
type Batcher interface {
	Counter

	// TakeAll takes calls that differ in nothing but their ID, one after the other
	// as Take would, as one atomic step. It returns a verdict for each, or an error
	// that is about all of them.
	TakeAll(ctx context.Context, calls []Call) ([]Verdict, error)
}

// maxMerged is how many calls [Merge] makes one of at most.
const maxMerged = 256

// Merge makes one call of concurrent calls for the same key, policy and cost. It is
// as exact as its engine and holds nothing back: the first call goes through at
// once, and those that come while it is out leave together when it is back. What a
// hot key costs is then so many round trips as fit one after the other, not one for
// each call; and what a call costs is two of them at most.
//
// Calls that wait are not counted yet: one whose context ends then returns
// [ErrNotCounted]. A goroutine runs for a key as long as calls wait for it.
//
// It panics if engine is nil.
func Merge(engine Batcher) Counter {
	if engine == nil {
		panic("exact: Merge needs an engine")
	}
	return &merged{Batcher: engine, queues: make(map[mergeable]*queue)}
}

type merged struct {
	Batcher
	mu     sync.Mutex
	queues map[mergeable]*queue // of keys that a call is out for
}

// Part implements [Parted].
func (m *merged) Part(call Call) int { return partOf(m.Batcher, call) }

// mergeable is what calls must have in common.
type mergeable struct {
	key    string
	policy *Policy
	cost   int64
}

// A queue holds the calls that leave next.
type queue struct{ waiting []*waiter }

type waiter struct {
	ctx  context.Context
	call Call
	done chan outcome // of one: nobody waits for who has left
}

type outcome struct {
	verdict Verdict
	err     error
}

// Take implements [Counter].
func (m *merged) Take(ctx context.Context, call Call) (Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return Verdict{}, err
	}
	k := mergeable{call.Key, call.Policy, call.Cost}
	m.mu.Lock()
	q, out := m.queues[k]
	if !out {
		m.queues[k] = new(queue)
		m.mu.Unlock()
		defer m.next(k)
		return m.Batcher.Take(ctx, call)
	}
	w := &waiter{ctx, call, make(chan outcome, 1)}
	q.waiting = append(q.waiting, w)
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
		return Verdict{}, fmt.Errorf("%w: %w", ErrNotCounted, ctx.Err())
	}
	return Verdict{}, fmt.Errorf("%w: %w", ErrMaybeCounted, ctx.Err())
}

// next lets those go who have waited for a call that is back, if there are any.
func (m *merged) next(k mergeable) {
	if batch := m.board(k); batch != nil {
		go func() {
			for ; batch != nil; batch = m.board(k) {
				m.send(batch)
			}
		}()
	}
}

// board takes the next batch from the queue, or closes the queue of a key that
// nobody waits for.
func (m *merged) board(k mergeable) []*waiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queues[k]
	n := min(len(q.waiting), maxMerged)
	if n == 0 {
		delete(m.queues, k)
		return nil
	}
	batch := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	return batch
}

// send makes one call of a batch. It may take as long as the most patient of them
// waits; who is less patient leaves.
func (m *merged) send(batch []*waiter) {
	calls := make([]Call, len(batch))
	ctx := context.WithoutCancel(batch[0].ctx) // its values, not its end
	last, bounded := batch[0].ctx.Deadline()
	for i, w := range batch {
		calls[i] = w.call
		if d, ok := w.ctx.Deadline(); !ok {
			bounded = false
		} else if d.After(last) {
			last = d
		}
	}
	if bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, last)
		defer cancel()
	}
	verdicts, err := m.takeAll(ctx, calls)
	if err == nil && len(verdicts) != len(calls) {
		err = fmt.Errorf("%w: %d verdicts for %d calls", ErrMaybeCounted, len(verdicts), len(calls))
	}
	for i, w := range batch {
		o := outcome{err: err}
		if err == nil {
			o.verdict = verdicts[i]
		}
		w.done <- o
	}
}

// takeAll makes an error of a panic of the engine, which in a request's own goroutine
// would end that request, and here the program.
func (m *merged) takeAll(ctx context.Context, calls []Call) (verdicts []Verdict, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: the engine panics: %v", ErrMaybeCounted, r)
		}
	}()
	return m.TakeAll(ctx, calls)
}
