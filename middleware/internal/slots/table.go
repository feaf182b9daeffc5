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
	lines    map[Key]*line
	waiting  int
	networks networks
}

// Bound replaces the bounds. What is held goes on counting, by the new ones.
func (t *Table) Bound(b Bounds) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bounds = b
}

// A line is one tally: the slots that count, oldest first, and those that wait for one.
type line struct {
	held, waiting list.List // of *Slot, *waiter
}

// A Slot is a place that counts until it is left.
type Slot struct {
	key   Key
	began time.Time
	place *list.Element // nil: it counts no more
}

// A waiter is a request that waits for a slot of so many.
type waiter struct {
	key   Key
	most  int
	given chan *Slot    // nil: it has given way
	place *list.Element // in its line; nil: it does not wait any more
	seat  seat
}

// Try takes a slot of most, if one is free. It is nil if none is.
func (t *Table) Try(now time.Time, key Key, most int) *Slot {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.try(now, key, most)
}

func (t *Table) try(now time.Time, key Key, most int) *Slot {
	l := t.lines[key]
	if l == nil {
		if most < 1 {
			return nil
		}
		if t.lines == nil {
			t.lines = make(map[Key]*line)
		}
		l = new(line)
		t.lines[key] = l
	}
	t.pass(now, key, l)
	if l.waiting.Len() > 0 || l.held.Len() >= most { // those who wait came first
		return nil
	}
	return l.hold(now, key)
}

// Leave gives a slot back, to the first who waits. A second time it changes nothing, nor
// where the slot has ended by itself.
func (t *Table) Leave(now time.Time, s *Slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[s.key]
	if l == nil {
		return
	}
	if s.place != nil {
		l.held.Remove(s.place)
		s.place = nil
	}
	t.pass(now, s.key, l)
	t.forget(s.key, l)
}

// forget forgets a line that nobody is in: also one whose slots have all ended by
// themselves, when the last of their requests is over.
func (t *Table) forget(key Key, l *line) {
	if l.held.Len() == 0 && l.waiting.Len() == 0 {
		delete(t.lines, key)
	}
}

// Live returns how many tallies have slots or wait for them, and how many requests wait.
func (t *Table) Live() (tallies, waiting int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lines), t.waiting
}

// hold takes a slot.
func (l *line) hold(now time.Time, key Key) *Slot {
	s := &Slot{key: key, began: now}
	s.place = l.held.PushBack(s)
	return s
}

// pass ends what has been held for too long, and hands free slots to those who wait.
func (t *Table) pass(now time.Time, key Key, l *line) {
	for e := l.held.Front(); t.bounds.Hold > 0 && e != nil; e = l.held.Front() {
		s := e.Value.(*Slot)
		if now.Sub(s.began) < t.bounds.Hold {
			break
		}
		l.held.Remove(e)
		s.place = nil
	}
	for e := l.waiting.Front(); e != nil; e = l.waiting.Front() {
		w := e.Value.(*waiter)
		if l.held.Len() >= w.most {
			break
		}
		t.quit(l, w)
		w.given <- l.hold(now, key)
	}
}

// quit takes a waiter out of its line.
func (t *Table) quit(l *line, w *waiter) {
	l.waiting.Remove(w.place)
	w.place = nil
	t.waiting--
	t.networks.leave(w.seat)
}
