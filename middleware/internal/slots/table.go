// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"container/list"
	"sync"
	"time"
)

// Bounds are those of a Table. In the zero value a slot never ends by itself, and nobody
// may wait.
type Bounds struct {
	// Hold is how long a slot counts at most; 0 for ever.
	Hold time.Duration

	// Queue is how many requests of one tally may wait, and QueueAll how many of all
	// tallies together: each of them holds a goroutine, a connection, and what the client
	// has sent of a body. Where QueueAll wait, those of the network that has most of them
	// give way to another's.
	Queue, QueueAll int
}

// A Table holds the slots of a policy. The zero value is empty. It is safe for concurrent
// use.
type Table struct {
	mu       sync.Mutex
	bounds   Bounds
	tallies  map[Key]*tally
	waiting  int
	networks networks
}

// Bound replaces the bounds. What is held goes on counting, by the new ones.
func (t *Table) Bound(b Bounds) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bounds = b
}

// A tally has slots that count, oldest first, and requests that wait for one.
type tally struct {
	held, waiting list.List // of *Slot, *waiter
}

// A Slot counts until it is left.
type Slot struct {
	key   Key
	began time.Time
	elem  *list.Element // nil: it counts no more
}

// A waiter is a request that waits for a slot of so many.
type waiter struct {
	key  Key
	most int
	slot chan *Slot    // nil: it has given way
	elem *list.Element // in its queue; nil: it does not wait any more
	seat seat
}

// Try takes a slot of most, if one is free. It is nil if none is.
func (t *Table) Try(now time.Time, key Key, most int) *Slot {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.try(now, key, most)
}

func (t *Table) try(now time.Time, key Key, most int) *Slot {
	a := t.tallies[key]
	if a == nil {
		if most < 1 {
			return nil
		}
		if t.tallies == nil {
			t.tallies = make(map[Key]*tally)
		}
		a = new(tally)
		t.tallies[key] = a
	}
	t.pass(now, key, a)
	if a.waiting.Len() > 0 || a.held.Len() >= most { // those who wait came first
		return nil
	}
	return a.hold(now, key)
}

// Leave gives a slot back, to the first who waits. A second time it changes nothing, nor
// where the slot has ended by itself.
func (t *Table) Leave(now time.Time, s *Slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.tallies[s.key]
	if a == nil {
		return
	}
	if s.elem != nil {
		a.held.Remove(s.elem)
		s.elem = nil
	}
	t.pass(now, s.key, a)
	t.forget(s.key, a)
}

// forget forgets a tally that nobody is in: also one whose slots have all ended by
// themselves, when the last of their requests is over.
func (t *Table) forget(key Key, a *tally) {
	if a.held.Len() == 0 && a.waiting.Len() == 0 {
		delete(t.tallies, key)
	}
}

// Live returns how many tallies have slots or wait for them, and how many requests wait.
func (t *Table) Live() (tallies, waiting int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.tallies), t.waiting
}

// hold takes a slot.
func (a *tally) hold(now time.Time, key Key) *Slot {
	s := &Slot{key: key, began: now}
	s.elem = a.held.PushBack(s)
	return s
}

// pass ends what has been held for too long, and hands free slots to those who wait.
func (t *Table) pass(now time.Time, key Key, a *tally) {
	for e := a.held.Front(); t.bounds.Hold > 0 && e != nil; e = a.held.Front() {
		s := e.Value.(*Slot)
		if now.Sub(s.began) < t.bounds.Hold {
			break
		}
		a.held.Remove(e)
		s.elem = nil
	}
	for e := a.waiting.Front(); e != nil; e = a.waiting.Front() {
		w := e.Value.(*waiter)
		if a.held.Len() >= w.most {
			break
		}
		t.quit(a, w)
		w.slot <- a.hold(now, key)
	}
}

// quit takes a waiter out of its queue.
func (t *Table) quit(a *tally, w *waiter) {
	a.waiting.Remove(w.elem)
	w.elem = nil
	t.waiting--
	t.networks.leave(w.seat)
}
