// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"container/list"
	"sync"
	"time"
)

// A Key names a tally.
type Key uint64

// A Table holds the slots of a policy. The zero value is empty, and its slots never end by
// themselves. It is safe for concurrent use.
type Table struct {
	mu      sync.Mutex
	hold    time.Duration
	tallies map[Key]*list.List // of *Slot that count, oldest first
}

// SetHold says how long a slot counts at most; 0 for ever. It holds for slots that are taken already, too.
func (t *Table) SetHold(hold time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hold = hold
}

// A Slot counts until it is left.
type Slot struct {
	key   Key
	began time.Time
	elem  *list.Element // nil: it counts no more
}

// Try takes a slot of most, if one is free. It is nil if none is.
func (t *Table) Try(now time.Time, key Key, most int) *Slot {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := t.tallies[key]
	if held == nil {
		if most < 1 {
			return nil
		}
		if t.tallies == nil {
			t.tallies = make(map[Key]*list.List)
		}
		held = list.New()
		t.tallies[key] = held
	}
	t.end(now, held)
	if held.Len() >= most {
		return nil
	}
	s := &Slot{key: key, began: now}
	s.elem = held.PushBack(s)
	return s
}

// Leave gives a slot back. A second time it changes nothing, nor
// where the slot has ended by itself.
func (t *Table) Leave(now time.Time, s *Slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := t.tallies[s.key]
	if held == nil {
		return
	}
	if s.elem != nil {
		held.Remove(s.elem)
		s.elem = nil
	}
	t.end(now, held)
	if held.Len() == 0 {
		delete(t.tallies, s.key)
	}
}

// end ends what has been held for too long.
func (t *Table) end(now time.Time, held *list.List) {
	for e := held.Front(); t.hold > 0 && e != nil; e = held.Front() {
		s := e.Value.(*Slot)
		if now.Sub(s.began) < t.hold {
			return
		}
		held.Remove(e)
		s.elem = nil
	}
}
