// SPDX-License-Identifier: Apache-2.0

package guardedcall

import (
	"container/list"
	"time"
)

// A Caller says whether the client pays.
type Caller uint8

const (
	Stranger Caller = iota // one attacker can be many of them
	Payer
	callers // how many there are
)

// turns holds the calls that are out or wait, by caller, and says which is next.
//
//   - Strangers have three quarters of the places. An attacker can have thousands of
//     addresses and free keys: payers still find room to wait.
//   - No key has more places than are left. One alone has half, two a third each: a key
//     that cost nothing does not shut out the others.
//   - Where a call must wait, strangers and payers take turns, and among them key by key.
type turns struct {
	held    [callers]int // out or waiting
	holders map[string]*holder
	queues  [callers]list.List // of holders that have calls waiting
	next    Caller
}

// A holder is a key that has calls out or waiting.
type holder struct {
	who     Caller
	key     string
	held    int
	waiting list.List     // of *waiter
	elem    *list.Element // in its queue; nil: none of its calls waits
}

// A waiter is a call that waits until it may go out.
type waiter struct {
	who    Caller
	goes   chan uint64   // the number that it went out as; 0: too late
	ends   time.Time     // when its deadline is over
	loaded uint64        // calls that had been so when it came
	elem   *list.Element // in the queue of its holder; nil: it has left
}

// all returns how many calls are out or wait.
func (t *turns) all() int { return t.held[Stranger] + t.held[Payer] }

// hold takes a place for a key, if there is one for it.
func (t *turns) hold(who Caller, key string, most int) *holder {
	free := most - t.all()
	if who == Stranger {
		free = min(free, most-reserved(most)-t.held[Stranger])
	}
	h := t.holders[key]
	if free <= 0 || h != nil && h.held >= free {
		return nil
	}
	return t.force(who, key)
}

// reserved is how many places strangers cannot take.
func reserved(most int) int { return min(most-1, (most+3)/4) }

// force takes a place, whether there is one or not.
func (t *turns) force(who Caller, key string) *holder {
	h := t.holders[key]
	if h == nil {
		if t.holders == nil {
			t.holders = make(map[string]*holder)
		}
		h = &holder{who: who, key: key}
		t.holders[key] = h
	}
	h.held++
	t.held[h.who]++
	return h
}

// release gives a place back.
func (t *turns) release(h *holder) {
	t.held[h.who]--
	if h.held--; h.held == 0 {
		delete(t.holders, h.key)
	}
}

// wait puts a call of a holder into its queue.
func (t *turns) wait(h *holder, ends time.Time, loaded uint64) *waiter {
	w := &waiter{who: h.who, goes: make(chan uint64, 1), ends: ends, loaded: loaded}
	w.elem = h.waiting.PushBack(w)
	if h.elem == nil {
		h.elem = t.queues[h.who].PushBack(h)
	}
	return w
}

// withdraw takes a call out of the queue before its turn.
func (t *turns) withdraw(h *holder, w *waiter) {
	if w.elem != nil {
		h.waiting.Remove(w.elem)
		t.requeue(h)
	}
}

// requeue puts a holder at the end of its queue, or takes it out if it has nothing there.
func (t *turns) requeue(h *holder) {
	if h.waiting.Len() > 0 {
		t.queues[h.who].MoveToBack(h.elem)
		return
	}
	t.queues[h.who].Remove(h.elem)
	h.elem = nil
}

// empty reports whether no call waits.
func (t *turns) empty() bool { return t.queues[Stranger].Len()+t.queues[Payer].Len() == 0 }

// none reports whether no waiting call may be served before a newcomer.
func (t *turns) none(who Caller) bool {
	return t.queues[who].Len() == 0 && (who == Payer || t.queues[Payer].Len() == 0)
}

// take takes the call out of its queue whose turn it is, of strangers and of payers if there
// is room for them; nil if there is none.
func (t *turns) take(strangers, payers bool) *waiter {
	strangers, payers = strangers && t.queues[Stranger].Len() > 0, payers && t.queues[Payer].Len() > 0
	if !strangers && !payers {
		return nil
	}
	who := t.next
	if !strangers || !payers {
		who = Stranger
		if payers {
			who = Payer
		}
	}
	t.next = 1 - who
	h := t.queues[who].Front().Value.(*holder)
	w := h.waiting.Remove(h.waiting.Front()).(*waiter)
	w.elem = nil
	t.requeue(h)
	return w
}
