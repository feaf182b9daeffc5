// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"context"
	"errors"
	"time"
)

// ErrFull says that no slot is free, and that no more may wait for one.
var ErrFull = errors.New("slots: all are held, and no more may wait")

// Wait takes a slot of most, when one is free: first come, first served. It returns ErrFull
// at once if nobody may wait any more, and the error of ctx when that ends first. now is
// the clock, and is asked again whenever something happens.
func (t *Table) Wait(ctx context.Context, now func() time.Time, key Key, most int) (*Slot, error) {
	t.mu.Lock()
	s := t.try(now(), key, most)
	l := t.lines[key]
	if s != nil {
		t.mu.Unlock()
		return s, nil
	}
	if most < 1 || l.waiting.Len() >= t.bounds.Queue || t.waiting >= t.bounds.QueueAll {
		t.mu.Unlock()
		return nil, ErrFull
	}
	w := &waiter{most: most, given: make(chan *Slot, 1)}
	w.place = l.waiting.PushBack(w)
	t.waiting++
	ends := t.ends(now(), l)
	t.mu.Unlock()

	timer := time.NewTimer(ends)
	defer timer.Stop()
	for {
		select {
		case s := <-w.given:
			return s, nil
		case <-ctx.Done():
			return nil, t.giveUp(now(), key, w, ctx.Err())
		case <-timer.C:
			t.mu.Lock()
			t.pass(now(), key, l)
			ends = t.ends(now(), l)
			t.mu.Unlock()
			timer.Reset(ends)
		}
	}
}

// giveUp ends a wait. A slot that was given meanwhile goes to the next.
func (t *Table) giveUp(now time.Time, key Key, w *waiter, err error) error {
	t.mu.Lock()
	l := t.lines[key]
	if w.place != nil {
		t.quit(l, w)
		t.forget(key, l)
		t.mu.Unlock()
		return err
	}
	t.mu.Unlock()
	t.Leave(now, <-w.given)
	return err
}

// ends returns how long until the oldest slot ends by itself.
func (t *Table) ends(now time.Time, l *line) time.Duration {
	const never = 24 * time.Hour // it is looked at again then, and costs nothing
	if t.bounds.Hold <= 0 || l.held.Len() == 0 {
		return never
	}
	return max(time.Millisecond, t.bounds.Hold-now.Sub(l.held.Front().Value.(*Slot).began))
}
