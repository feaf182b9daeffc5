// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/internal/patience"
)

// A lane is where calls to one owner wait for each other, whatever their keys: a request costs some
// twenty times what a call in it does. No call is held back for company. A call goes at once if no
// request is out. Calls that come while one is out leave together when it is answered, or when that
// takes longer than answers do, so that a slow request holds up no call outside of it; or when they
// are as many as have room.
type lane struct {
	send func(ctx context.Context, groups []group, heard func())

	mu     sync.Mutex
	groups []group            // that leave next
	at     map[exact.Call]int // where a group of takes is: of their call without an ID
	n      int                // of them all

	out   int           // requests without an answer yet
	last  int           // the number of the last one that left
	left  time.Time     // when it did
	usual time.Duration // that it takes until something is heard
	timer *time.Timer   // by which the waiters leave; nil if there are none
}

// soonest is how long a waiter waits for an answer at least. On a busy machine it is as long as
// answers take, or requests would be the more, and the dearer, the busier it is.
const soonest = time.Millisecond

// A waiter waits for the answer to its call.
type waiter struct {
	ctx     context.Context
	op      string
	call    exact.Call
	receipt *receipt     // of a refund
	charged time.Time    // what it gives back
	done    chan outcome // of one: a waiter that has left does not read it

	sent, gone bool // lane.mu
}

type outcome struct {
	verdict exact.Verdict
	err     error
}

// A group is waiters whose calls differ in nothing but their ID.
type group []*waiter

// do has a call made, and returns when its context ends.
func (l *lane) do(w *waiter) (exact.Verdict, error) {
	w.done = make(chan outcome, 1)
	l.mu.Lock()
	if l.out == 0 {
		heard := l.leaves()
		l.mu.Unlock()
		defer heard()
		l.send(w.ctx, []group{{w}}, heard)
		o := <-w.done
		return o.verdict, o.err
	}
	l.wait(w)
	l.mu.Unlock()
	select {
	case o := <-w.done:
		return o.verdict, o.err
	case <-w.ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.sent {
		return exact.Verdict{}, fmt.Errorf("%w: %w", exact.ErrMaybeCounted, w.ctx.Err())
	}
	w.gone = true
	return exact.Verdict{}, fmt.Errorf("%w: %w", exact.ErrNotCounted, w.ctx.Err())
}

// wait puts a call where it leaves with others. l.mu is held.
func (l *lane) wait(w *waiter) {
	k := w.call
	k.ID = ""
	i, known := l.at[k]
	if known = known && w.op == opTake; !known {
		i, l.groups = len(l.groups), append(l.groups, nil)
		if w.op == opTake {
			l.at[k] = i
		}
	}
	l.groups[i] = append(l.groups[i], w)
	l.n++
	switch {
	case len(l.groups) == maxCalls || l.n == maxIDs:
		l.leave()
	case l.timer == nil:
		l.arm(w.ctx)
	}
}

// arm has the waiters leave without an answer, when that takes much longer than usual, or a third
// of the time that the first of them has. l.mu is held.
func (l *lane) arm(first context.Context) {
	wait := max(soonest, 4*l.usual)
	if end, ok := first.Deadline(); ok {
		wait = min(wait, time.Until(end)/3)
	}
	var timer *time.Timer
	timer = time.AfterFunc(time.Until(l.left.Add(wait)), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.timer == timer {
			l.leave()
		}
	})
	l.timer = timer
}

// leave sends all waiters, if there are any. l.mu is held.
func (l *lane) leave() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	groups := l.groups
	l.groups, l.at, l.n = nil, make(map[exact.Call]int), 0
	for i := range groups {
		groups[i] = slices.DeleteFunc(groups[i], func(w *waiter) bool { w.sent = true; return w.gone })
	}
	groups = slices.DeleteFunc(groups, func(g group) bool { return len(g) == 0 })
	if len(groups) == 0 {
		return
	}
	heard := l.leaves()
	go func() {
		defer heard()
		var contexts []context.Context
		for _, w := range slices.Concat(groups...) {
			contexts = append(contexts, w.ctx)
		}
		ctx, cancel := patience.Most(contexts)
		defer cancel()
		l.send(ctx, groups, heard)
	}()
}

// leaves notes that a request goes out, and returns what is to be called when something of it is
// heard, or never will be. If it is the last that went, the next goes. l.mu is held.
func (l *lane) leaves() (heard func()) {
	l.out++
	l.last++
	l.left = time.Now()
	number, left := l.last, l.left
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.usual += (time.Since(left) - l.usual) / 8
		if l.out--; l.out == 0 || number == l.last {
			l.leave()
		}
	})
}
