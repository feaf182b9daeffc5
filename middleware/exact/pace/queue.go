// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
)

const (
	// reach is how far ahead the last place of a process lies when it books the next.
	// Further would be unfair: a thousand waiting calls of one process would be booked
	// before a single call of another. With much less, a slow round trip would delay calls.
	reach = time.Second

	// fresh is how long a process believes that there is no pause. It asks again shortly
	// before it uses a place that it booked longer ago. So all processes hear of a pause
	// within fresh and a round trip. That costs a busy process a call each half second, a
	// quiet one a call for each place, and nothing if no call waits. Asking before use needs
	// no goroutine, and never asks in vain.
	fresh = 500 * time.Millisecond

	// early is how long before a moment the counter is asked: as long as a far counter takes
	// to answer. Otherwise the call would go late, and the next on time and too close.
	early = fresh / 2

	// late is how long a booking may wait for the other units of its call. Late use adds to
	// what is booked for that time: at most a second's worth.
	late = time.Second

	// maxAsking is how many places a process books at once.
	maxAsking = 8
)

// A queue holds the calls that wait in this process, and what is known of other
// processes.
type queue struct {
	name       string
	desk       *desk
	maxWaiting int
	maxWait    time.Duration

	mu      sync.Mutex
	waiters waiters
	asking  []costs                 // that are being booked
	queued  bool                    // what was booked last has to wait
	waits   [maxUnits]time.Duration // of each unit, of late
	paused  time.Time               // nothing goes before
	told    time.Time               // when the counter knew of that
	untold  bool                    // it does not
	telling int                     // pauses that it is being told of
	sure    time.Time               // all pauses that were asked for before are known
	looking bool                    // for others
}

// join queues a call, or says why it may not wait. It waits at most until end, if that is not zero.
func (q *queue) join(now, end time.Time, c costs) (*waiter, error) {
	w := &waiter{costs: c, patience: now.Add(q.maxWait), news: make(chan struct{}, 1)}
	if !end.IsZero() && end.Before(w.patience) {
		w.patience, w.deadline = end, true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.earliest(now, c)
	if full := len(q.waiters) >= q.maxWaiting; full || at.After(w.patience) {
		return nil, &RefusedError{Name: q.name, Wait: at.Sub(now), Waiting: len(q.waiters), Full: full, deadline: w.deadline && !full}
	}
	q.waiters = append(q.waiters, w)
	return w, nil
}

// earliest returns when a call could go that comes now, if no other process had any.
func (q *queue) earliest(now time.Time, c costs) time.Time {
	at := latest(now, q.paused, q.waiters.latest())
	if !q.queued || len(q.waiters) == 0 {
		return at
	}
	for _, w := range q.waiters {
		if w.place == nil {
			at = at.Add(w.costs.takes(q.desk.units))
		}
	}
	return at.Add(c.takes(q.desk.units))
}

func latest(at ...time.Time) time.Time { return slices.MaxFunc(at, time.Time.Compare) }

// What a call does next.
type action int

const (
	sleeping action = iota
	looking         // for a pause
	going
	leaving
)

// step says what a call does next, and until when it sleeps if nothing happens.
func (q *queue) step(now time.Time, w *waiter) (action, time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	next, opens := q.advance(now)
	pl := w.place
	switch {
	case w.err != nil:
		q.depart(now, w)
		return leaving, now
	case pl == nil && !now.Before(w.patience):
		w.err = q.refusal(w, q.earliest(now, w.costs).Sub(now))
		q.depart(now, w)
		return leaving, now
	case pl == nil && next == w && opens.After(now) && opens.Before(w.patience):
		return sleeping, opens
	case pl == nil:
		return sleeping, w.patience
	case pl.busy:
		return sleeping, now.Add(2 * q.desk.deadline) // it is told before
	}
	if u := pl.lacks(&q.waits); u >= 0 {
		// So early that it is good half of late before the place is, if the wait is as
		// long as it was. Rather too early than too late: then it is what is booked again,
		// and not what has the longest wait.
		if ask := pl.moment.Add(-q.waits[u] - late/2); ask.After(now) {
			return sleeping, ask
		}
		pl.busy, pl.asked = true, now
		go q.complete(pl, u, w.patience.Sub(now))
		return sleeping, now.Add(2 * q.desk.deadline)
	}
	if ask := pl.moment.Add(-early); latest(now, pl.moment).Sub(latest(pl.asked, q.sure)) > fresh {
		switch {
		case ask.After(now):
			return sleeping, ask
		case !q.looking:
			q.looking = true
			return looking, now
		case !pl.moment.After(now):
			return sleeping, now.Add(q.desk.deadline) // it is told before
		}
	}
	if pl.moment.After(now) {
		return sleeping, pl.moment
	}
	w.place = nil // it is used
	q.depart(now, w)
	return going, now
}

// leave takes a call out of the queue.
func (q *queue) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.depart(time.Now(), w)
}

// depart is leave, and q.mu is held. If the call has a place, the next has it now.
func (q *queue) depart(now time.Time, w *waiter) {
	q.drop(q.waiters.leave(w))
	q.advance(now)
	q.callNext()
}

// drop refunds unowned places. A place with a booking under way is left to the goroutine
// that books.
func (q *queue) drop(places ...*place) {
	for _, pl := range places {
		if pl != nil && !pl.busy && len(pl.held) > 0 {
			go q.desk.giveBack(pl.held)
		}
	}
}

// callNext tells the first call without a place that it is the first.
func (q *queue) callNext() {
	if w := q.waiters.next(q.asking); w != nil {
		w.tell()
	}
}

// advance books places for the next calls, as far as this process may. It returns the next
// call then, and when another may be booked, if time decides that.
func (q *queue) advance(now time.Time) (*waiter, time.Time) {
	for booked := false; ; booked = true {
		w := q.waiters.next(q.asking)
		if booked && w != nil {
			w.tell()
		}
		if w == nil || len(q.asking) >= maxAsking || q.telling > 0 || !w.patience.After(now) {
			return w, time.Time{} // it is advanced when that has changed
		}
		if q.untold && now.Before(q.paused) {
			return w, q.paused
		}
		last := q.waiters.latest()
		if q.queued && len(q.asking) > 0 {
			last = latest(last, now)
			for _, c := range q.asking {
				last = last.Add(c.takes(q.desk.units))
			}
		}
		if opens := last.Add(-reach); opens.After(now) {
			return w, opens
		}
		q.asking = append(q.asking, w.costs)
		go q.book(w, q.waits, w.patience.Sub(now))
	}
}

// book books a place, the unit with the longest wait first. It goes to the first waiter that it
// suits; w is told if there is none.
func (q *queue) book(w *waiter, waits [maxUnits]time.Duration, ahead time.Duration) {
	pl := &place{costs: w.costs, asked: time.Now()}
	u := pl.lacks(&waits)
	var v exact.Verdict
	var err error
	if u >= 0 {
		v, err = q.desk.book(u, w.costs[u], ahead)
	}
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.asking, w.costs)
	q.asking = slices.Delete(q.asking, i, i+1)
	switch {
	case u < 0: // a call that uses nothing waits for its turn, and for pauses, which it has not asked for
		pl.moment, pl.asked = latest(now, q.paused), time.Time{}
		q.seat(now, w, pl)
	case err != nil:
		q.fail(w, err)
	case !v.Admitted:
		q.queued = true
		q.fail(w, q.refusal(w, ahead+v.Wait))
	default:
		q.add(now, pl, u, v)
		q.queued = v.Wait > 0
		q.seat(now, w, pl)
	}
	q.advance(now)
	q.callNext()
}

// seat gives a booked place to a waiter that it suits.
func (q *queue) seat(now time.Time, w *waiter, pl *place) {
	if !q.behindPause(pl) {
		q.drop(pl)
		return
	}
	back := q.waiters.give(pl)
	if back != nil && back.moment.After(w.patience) {
		q.fail(w, q.refusal(w, back.moment.Sub(now)))
	}
	q.drop(back)
}

// complete books one more unit for a place.
func (q *queue) complete(pl *place, u int, ahead time.Duration) {
	v, err := q.desk.book(u, pl.costs[u], max(0, ahead))
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	pl.busy = false
	w := q.waiters.holder(pl)
	if err == nil && v.Admitted {
		q.add(now, pl, u, v)
		good := q.behindPause(pl)
		switch {
		case w == nil:
		case pl.moment.After(w.patience):
			v.Admitted, v.Wait = false, pl.moment.Sub(now)-ahead
		case good:
			w.tell()
			return
		}
	}
	q.drop(pl)
	if w == nil {
		return
	}
	w.place = nil
	switch {
	case err != nil:
		q.fail(w, err)
	case !v.Admitted:
		q.fail(w, q.refusal(w, ahead+v.Wait))
	}
	q.advance(now)
	q.callNext()
}

// fail lets a call leave with an error, unless it has a place by now.
func (q *queue) fail(w *waiter, err error) {
	if w.place == nil && w.err == nil {
		w.err = err
		w.tell()
	}
}

func (q *queue) refusal(w *waiter, wait time.Duration) error {
	return &RefusedError{Name: q.name, Wait: wait, Waiting: max(0, slices.Index(q.waiters, w)), deadline: w.deadline}
}

// add adds what was booked of a unit to a place, and learns from it: what is admitted for now
// meets no pause.
func (q *queue) add(now time.Time, pl *place, u int, v exact.Verdict) {
	if stale := pl.add(held{u, now.Add(v.Wait), v.Receipt}, late); len(stale) > 0 {
		go q.desk.giveBack(stale)
	}
	if q.waits[u] = max(v.Wait, q.waits[u]/2); v.Wait == 0 {
		q.sure = latest(q.sure, pl.asked)
	}
}

// look asks for pauses, for all that wait here.
func (q *queue) look(ctx context.Context) error {
	asked := time.Now()
	wait, err := q.desk.paused(ctx)
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.looking = false
	for _, w := range q.waiters {
		if w.place != nil && w.place.moment.Sub(now) <= early {
			w.tell()
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	q.sure = latest(q.sure, asked)
	if wait > 0 {
		q.hold(now.Add(wait), now)
	}
	return nil
}

// pause tells all processes of a pause, unless one of that length is known. Nothing is
// booked here before the counter knows.
func (q *queue) pause(ctx context.Context, least, wait time.Duration) error {
	now := time.Now()
	q.mu.Lock()
	if !now.Add(least).After(q.paused) {
		q.mu.Unlock()
		return nil
	}
	q.telling++
	q.hold(now.Add(wait), now)
	q.mu.Unlock()
	err := q.desk.pause(ctx, now.Add(wait))
	q.mu.Lock()
	defer q.mu.Unlock()
	q.telling--
	q.told, q.untold = time.Now(), q.untold || err != nil
	q.advance(q.told)
	q.callNext()
	return err
}

// hold lets nothing go before a moment. Useless earlier places are refunded, and their
// waiters book others, behind the pause.
func (q *queue) hold(until, now time.Time) {
	if !until.After(q.paused) {
		return
	}
	q.paused, q.told, q.untold = until, now, false
	q.drop(q.waiters.void(until)...)
	q.callNext()
}

// behindPause reports whether a place is good. It is not if a pause became known while it was
// booked. Later the counter knows of the pause, and places may lie before its end only by the
// time of answers. Much more means that the counter was not told: then nothing is booked
// before the end, or all calls would go at once there.
func (q *queue) behindPause(pl *place) bool {
	short := q.paused.Sub(pl.moment)
	switch {
	case short <= 0:
		return true
	case pl.asked.Before(q.told):
		return false
	case short > early:
		q.untold = true
		return false
	}
	pl.moment = q.paused
	return true
}
