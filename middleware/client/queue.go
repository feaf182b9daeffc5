// SPDX-License-Identifier: Apache-2.0

package client

import (
	"container/list"
	"sync"
	"time"
)

// want is what a challenge is for: requests that want the same can pay together.
type want struct {
	origin string
	kind   uint64
}

// role is the part of a request that met a challenge.
type role int

const (
	waiting role = iota // none yet
	trying              // sends again: there is room for it
	looking             // sends again, to learn for others whether there is room
	paying              // pays for all that wait
	alone               // pays for itself
)

// outcome is how a role ended.
type outcome int

const (
	gone    outcome = iota // in a way that says nothing to waiting requests
	served                 // the request was let in with the tokens there are
	bought                 // the proof bought a tally
	useless                // the proof was accepted and bought nothing that can be shared
	closed                 // nothing is for sale, or nothing at a price that is paid
)

// queues hold the requests that met a challenge and do not pay themselves. The
// zero value is empty; it holds the queues that are in use and nothing else.
type queues struct {
	mu    sync.Mutex
	going map[want]*queue
}

// queue is a queue before one till. If the server says how many requests a bought
// tally has room for (r of the RateLimit field), that many are called. If all were
// called, all but a few would be refused again.
//
// When the room is used up, the first that waits looks: it sends again with the
// tokens there are. It is let in, if there is room after all. Otherwise it is
// refused with a challenge at today's price, and pays. Rejected: to pay at once for
// its old challenge. The tally may not be needed, the price may have risen, and the
// challenge may have expired.
//
// If there is room after all, or the server does not say how much, the number to
// call is unknown. So one request looks at first, and one more for each that is
// let in: twice as many with each round trip.
//
// While some wait, one pays or at least one looks.
type queue struct {
	of      want
	stock   func(sent uint64) stock
	waiting list.List // of *place
	payer   *place
	scouts  map[*place]struct{} // that look
	width   int                 // how many may look
	until   time.Time           // when payer and scouts are given up
	moved   time.Time           // when a payer or scout was last let in
}

// place is the place of one request in a queue.
type place struct {
	of      want
	sent    uint64 // number of the request's last send
	again   bool   // it has been called before
	expires time.Time
	ttl     time.Duration // of the challenge, as that came
	called  chan role     // by the queue, while the request waits

	since time.Time
	at    *list.Element // while it waits
}

// come lets a request that was refused come, or come back, to the queue. Unless it
// is called at once, it waits.
func (s *queues) come(now time.Time, p *place, j *jar) role {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.open(p.of, j)
	if q.payer == p { // the price has risen, or the challenge expired
		q.until = p.expires
		return paying
	}
	if _, looked := q.scouts[p]; looked {
		delete(q.scouts, p)
		q.width = 1
	}
	e := q.assign(now, p, true)
	if e == waiting {
		p.since = now
		if p.again {
			p.at = q.waiting.PushFront(p)
		} else {
			p.at = q.waiting.PushBack(p)
		}
	}
	s.tidy(now, q)
	return e
}

// open returns the queue for what is wanted.
func (s *queues) open(w want, j *jar) *queue {
	if q := s.going[w]; q != nil {
		return q
	}
	if s.going == nil {
		s.going = make(map[want]*queue)
	}
	q := &queue{
		of:     w,
		stock:  func(sent uint64) stock { return j.claim(w.origin, w.kind, sent) },
		scouts: make(map[*place]struct{}),
		width:  1,
	}
	s.going[w] = q
	return q
}

// assign says what a place is called to now. One that comes has just been refused.
func (q *queue) assign(now time.Time, p *place, comes bool) role {
	switch q.stock(p.sent) {
	case room:
		return trying
	case nothing:
		// It has seen all that was bought and was refused: looking is done, unless
		// others look and were let in since.
		if q.payer == nil && now.Before(p.expires) && (comes || len(q.scouts) == 0 && q.width == 1) {
			q.payer, q.until = p, p.expires
			return paying
		}
	}
	if q.payer != nil || len(q.scouts) >= q.width {
		return waiting
	}
	return q.look(now, p)
}

// call calls those in front for as long as there is something to call them to.
func (q *queue) call(now time.Time) {
	for e := q.waiting.Front(); e != nil; e = q.waiting.Front() {
		p := e.Value.(*place)
		to := q.assign(now, p, false)
		if to == waiting {
			return
		}
		q.dismiss(p, to)
	}
}

// remove takes out one that waits.
func (q *queue) remove(p *place) {
	q.waiting.Remove(p.at)
	p.at = nil
}

// dismiss calls one that waits.
func (q *queue) dismiss(p *place, to role) {
	q.remove(p)
	p.called <- to
}

// look has one look, for as long as its challenge lives.
func (q *queue) look(now time.Time, p *place) role {
	q.scouts[p] = struct{}{}
	q.until = now.Add(p.ttl)
	return looking
}

// all calls all that wait.
func (q *queue) all(to role) {
	for e := q.waiting.Front(); e != nil; e = q.waiting.Front() {
		q.dismiss(e.Value.(*place), to)
	}
}

// overdue calls a request that has waited for the life of its challenge, unless
// the queue has moved meanwhile: then it waits longer.
//
// The payer or scout has had that long as well, and is given up. So a slow
// request holds up others once.
func (s *queues) overdue(now time.Time, p *place) (e role, longer time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.at == nil {
		return <-p.called, 0 // a moment ago
	}
	q := s.going[p.of]
	due := p.since
	if q.moved.After(due) {
		due = q.moved
	}
	if due = due.Add(p.ttl); now.Before(due) {
		return waiting, due.Sub(now)
	}
	if !now.Before(q.until) {
		q.payer = nil
		clear(q.scouts)
	}
	q.remove(p)
	e = trying
	if q.payer == nil && len(q.scouts) < q.width {
		e = q.look(now, p)
	}
	s.tidy(now, q)
	return e, 0
}

// leave takes a request out, whose role has ended, or which is gone.
func (s *queues) leave(now time.Time, p *place, how outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.going[p.of]
	if q == nil {
		return
	}
	if p.at != nil {
		q.remove(p)
	}
	_, looked := q.scouts[p]
	delete(q.scouts, p)
	paid := q.payer == p
	if paid {
		q.payer = nil
	}
	switch how {
	case bought:
		q.width, q.moved = 1, now
	case served:
		if looked || paid {
			q.width++
			q.moved = now
		}
	case useless:
		q.all(alone)
	case closed:
		if (paid || looked) && q.payer == nil {
			q.all(trying) // each has a refusal of its own coming
		}
	}
	s.tidy(now, q)
}

// restock calls the requests that have room after a request paid for itself.
func (s *queues) restock(now time.Time, w want) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.going[w]; q != nil {
		q.moved = now
		s.tidy(now, q)
	}
}

// tidy calls the requests that can go, and drops an unused queue.
func (s *queues) tidy(now time.Time, q *queue) {
	q.call(now)
	if q.waiting.Len() == 0 && q.payer == nil && len(q.scouts) == 0 {
		delete(s.going, q.of)
	}
}
