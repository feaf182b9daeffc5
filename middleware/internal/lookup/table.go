// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// A Table keeps answers. Its exported fields must be set before the first Get and do not
// change. It is safe for concurrent use.
type Table[K comparable, V any] struct {
	Ask      func(context.Context, K) (V, error)
	Failed   func(error)   // is told of each failure, before the callers that wait go on
	Keep     func(K) K     // returns what is kept of a key
	Life     time.Duration // of an answer
	Deadline time.Duration // of a call
	Entries  int           // at most

	mu      sync.RWMutex
	entries map[K]*entry[V]
	turns   chan struct{} // one for each call that runs
}

// callsAtOnce is how many calls run at once: what a pool of connections to a database has to
// spare.
const callsAtOnce = 16

type entry[V any] struct {
	value atomic.Pointer[V] // the last answer; nil: none
	asked atomic.Int64      // when it was asked for, or a life before the next call is due, in ns
	used  atomic.Int64

	// Guarded by the table.
	call   *call // that is under way; nil: none
	failed bool  // the last call did
}

// A call runs the function; others can wait.
type call struct {
	ctx  context.Context // ends with the call, or at its deadline
	late bool            // that was noticed; guarded by the table
}

// The failures that are not the function's own.
var (
	ErrLate = errors.New("no answer within the deadline")
	ErrBusy = errors.New("no place among the calls that run at once within the deadline")
	ErrFull = errors.New("no entry to be had: calls are under way for all that were looked at")
	errGone = errors.New("the function has ended its goroutine")
)

// never is when something was asked for that never was.
const never = -1 << 62

// Get returns what is known of a key at now. If nothing is, or nothing for two lives, it
// waits for an answer, and no longer than ctx; unless the last call has failed. Only the
// values of ctx reach the function: a client that hangs up ends nothing that others wait for.
func (t *Table[K, V]) Get(ctx context.Context, now time.Time, k K) (v V, known bool) {
	at := now.UnixNano()
	if e := t.fresh(at, k); e != nil {
		return e.last()
	}
	e, c := t.look(ctx, at, k)
	if e == nil {
		t.Failed(ErrFull)
		return v, false
	}
	if c != nil {
		select {
		case <-c.ctx.Done():
			t.notice(e, c)
		case <-ctx.Done():
		}
	}
	return e.last()
}

// Fresh reports whether Get would neither ask about a key nor wait, and returns what it would.
func (t *Table[K, V]) Fresh(now time.Time, k K) (v V, fresh bool) {
	e := t.fresh(now.UnixNano(), k)
	if e == nil {
		return v, false
	}
	v, _ = e.last()
	return v, true
}

// fresh returns the entry of a key that need not be asked about, or nil.
func (t *Table[K, V]) fresh(at int64, k K) *entry[V] {
	t.mu.RLock()
	e := t.entries[k]
	t.mu.RUnlock()
	if e == nil {
		return nil
	}
	e.used.Store(at)
	if t.age(e, at) >= t.Life {
		return nil
	}
	return e
}

// last returns the last answer, if there is one.
func (e *entry[V]) last() (v V, known bool) {
	if last := e.value.Load(); last != nil {
		return *last, true
	}
	return v, false
}

// age is how long ago the last answer was asked for. A step back by less than a life is
// another goroutine's later reading of the clock.
func (t *Table[K, V]) age(e *entry[V], at int64) time.Duration {
	return time.Duration(max(at-e.asked.Load(), e.asked.Load()-at))
}

// look finds or makes the entry of a key, sees that it is asked about if it is time to, and
// returns the call if there is one to be waited for.
func (t *Table[K, V]) look(ctx context.Context, at int64, k K) (*entry[V], *call) {
	t.mu.Lock()
	e := t.entries[k]
	if e == nil {
		if e = t.add(at, t.Keep(k)); e == nil {
			t.mu.Unlock()
			return nil, nil
		}
	}
	age, known := t.age(e, at), e.value.Load() != nil
	waits := !e.failed && (!known || age >= 2*t.Life)
	if e.call == nil && age >= t.Life {
		e.call = t.start(ctx, e, at, k)
	}
	c := e.call
	t.mu.Unlock()
	if c == nil || waits {
		return e, c
	}
	if c.ctx.Err() != nil {
		t.notice(e, c)
	}
	return e, nil
}

// add makes an entry. If the table is full it takes the place of the one among a few that was
// used least lately: what an identity that comes once takes is given back first. It is nil if
// all of those are being asked about.
func (t *Table[K, V]) add(at int64, k K) *entry[V] {
	const few = 8
	if t.entries == nil {
		t.entries, t.turns = map[K]*entry[V]{}, make(chan struct{}, callsAtOnce)
	}
	if len(t.entries) >= t.Entries {
		var (
			least *entry[V]
			of    K
			seen  int
		)
		for k, e := range t.entries {
			if e.call == nil && (least == nil || e.used.Load() < least.used.Load()) {
				least, of = e, k
			}
			if seen++; seen == few {
				break
			}
		}
		if least == nil {
			return nil
		}
		delete(t.entries, of)
	}
	e := new(entry[V])
	e.asked.Store(never)
	e.used.Store(at)
	t.entries[k] = e
	return e
}

// start makes a call.
func (t *Table[K, V]) start(ctx context.Context, e *entry[V], at int64, k K) *call {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.Deadline)
	go func() {
		defer cancel()
		v, err := *new(V), errGone
		defer func() { t.finish(e, at, v, err) }()
		v, err = t.ask(ctx, k)
	}()
	return &call{ctx: ctx}
}

// ask calls the function when it is its turn.
func (t *Table[K, V]) ask(ctx context.Context, k K) (v V, err error) {
	select {
	case t.turns <- struct{}{}:
	case <-ctx.Done():
		return v, ErrBusy
	}
	defer func() { <-t.turns }()
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	return t.Ask(ctx, k)
}

// finish notes what has come of a call, late or not.
func (t *Table[K, V]) finish(e *entry[V], at int64, v V, err error) {
	t.mu.Lock()
	e.call = nil
	if e.failed = err != nil; e.failed {
		e.asked.Store(at - int64(t.Life-t.retry()))
	} else {
		e.asked.Store(at)
		e.value.Store(&v)
	}
	t.mu.Unlock()
	if err != nil {
		t.Failed(err)
	}
}

// retry is for how long a failure is remembered: short, so that customers get what is theirs
// soon after an outage, and long enough to let the function breathe.
func (t *Table[K, V]) retry() time.Duration { return min(t.Life, max(t.Life/10, time.Second)) }

// notice tells of a call that is late, once. It may answer yet.
func (t *Table[K, V]) notice(e *entry[V], c *call) {
	t.mu.Lock()
	first := e.call == c && !c.late
	c.late = true
	t.mu.Unlock()
	if first {
		t.Failed(ErrLate)
	}
}

// Adopt takes over what another table knows, as answers to be asked for anew: the next Get
// waits for the answer, and returns the old one if there is none.
func (t *Table[K, V]) Adopt(old *Table[K, V], change func(V) V) {
	old.mu.RLock()
	defer old.mu.RUnlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, was := range old.entries {
		last := was.value.Load()
		if last == nil || len(t.entries) == t.Entries {
			continue
		}
		v := change(*last)
		t.add(was.used.Load(), k).value.Store(&v)
	}
}
