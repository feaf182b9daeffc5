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
// if the request may not wait, or has to give way to one of another network than its own, and
// the error of ctx when that ends first. now is the clock, and is asked again whenever
// something happens.
func (t *Table) Wait(ctx context.Context, now func() time.Time, key Key, most int, network Key) (*Slot, error) {
	t.mu.Lock()
	if s := t.try(now(), key, most); s != nil {
		t.mu.Unlock()
		return s, nil
	}
	w := t.join(key, most, network)
	if w == nil {
		t.mu.Unlock()
		return nil, ErrFull
	}
	a := t.tallies[key]
	ends := t.ends(now(), a)
	t.mu.Unlock()

	timer := time.NewTimer(ends)
	defer timer.Stop()
	for {
		select {
		case s := <-w.slot:
			if s == nil {
				return nil, ErrFull
			}
			return s, nil
		case <-ctx.Done():
			return nil, t.giveUp(now(), key, w, ctx.Err())
		case <-timer.C:
			t.mu.Lock()
			t.pass(now(), key, a)
			ends = t.ends(now(), a)
			t.mu.Unlock()
			timer.Reset(ends)
		}
	}
}

// join has a request wait, or is nil if it may not.
func (t *Table) join(key Key, most int, network Key) *waiter {
	a := t.tallies[key]
	if most < 1 || a.waiting.Len() >= t.bounds.Queue || t.waiting >= t.bounds.QueueAll && !t.makeRoom(network) {
		return nil
	}
	w := &waiter{key: key, most: most, slot: make(chan *Slot, 1)}
	w.elem = a.waiting.PushBack(w)
	t.waiting++
	w.seat = t.networks.join(network, w)
	return w
}

// makeRoom has somebody else give way to a request of a network, and reports whether anybody has.
func (t *Table) makeRoom(network Key) bool {
	w, ok := t.networks.inTheWay(network).(*waiter)
	if !ok {
		return false
	}
	a := t.tallies[w.key]
	t.quit(a, w)
	t.forget(w.key, a)
	w.slot <- nil
	return true
}

// giveUp ends a wait. A slot that was given meanwhile goes to the next.
func (t *Table) giveUp(now time.Time, key Key, w *waiter, err error) error {
	t.mu.Lock()
	a := t.tallies[key]
	if w.elem != nil {
		t.quit(a, w)
		t.forget(key, a)
		t.mu.Unlock()
		return err
	}
	t.mu.Unlock()
	if s := <-w.slot; s != nil {
		t.Leave(now, s)
	}
	return err
}

// ends returns how long until the oldest slot ends by itself.
func (t *Table) ends(now time.Time, a *tally) time.Duration {
	const never = 24 * time.Hour // it is looked at again then, and costs nothing
	if t.bounds.Hold <= 0 || a.held.Len() == 0 {
		return never
	}
	return max(time.Millisecond, t.bounds.Hold-now.Sub(a.held.Front().Value.(*Slot).began))
}
