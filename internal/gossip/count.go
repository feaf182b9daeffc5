// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"math"
	"time"
)

// What is decided of a tally asks its records, and changes them. The caller sees that decisions of one tally
// come one after the other.

// A Limit is one limit of a tally, in one window.
type Limit struct {
	Key     uint64 // of the tally and the limit
	Seconds uint32 // the length of the window; 0: the limit is of something that ends
	Number  uint32 // of the window since 1970; or the Unix second of that end
	Bought  bool   // the tally was
}

// Heard has the known counts of a limit of a tally.
type Heard struct {
	Number         uint32 // of the window: later than was asked where another's clock is ahead
	Sum, Prev      uint32 // what all have admitted in it but for own holds, and in the one before: lower bounds of the truth
	Own            uint32 // what of Sum this process has admitted
	Back, PrevBack uint32 // how much others have given back since Look was last asked: own counts may hold it
	Unacked        uint32 // what this process has admitted and a live peer has not acknowledged
	Slack          int64  // how much that may be
}

// Look returns what is known of a limit that has this quota.
func (r *Records) Look(l Limit, quota int64) Heard {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := Heard{Number: l.Number, Slack: r.slack(l, quota)}
	at := r.find(l.Key)
	if at < 0 {
		return h
	}
	r.roll(at, l.Seconds, l.Number)
	rec := &r.all[at]
	h.Number, h.Sum, h.Own, h.Prev, h.Unacked = rec.number, rec.sum()-rec.held, rec.own.net()-rec.held, rec.prev, r.unacked(rec)
	h.Back, h.PrevBack = rec.back, rec.prevBack
	rec.back, rec.prevBack = 0, 0
	return h
}

func (r *Records) slack(l Limit, quota int64) int64 {
	if r.ready && r.live == 0 {
		return math.MaxInt64 // no peer is waited for
	}
	n := len(r.peers) + 1
	for _, s := range r.sizes { // the process that is gone may have admitted as much as each of that many
		if s.until >= int64(l.Number)*int64(l.Seconds) {
			n = max(n, s.processes)
			break
		}
	}
	return Slack(quota, int64(n), l.Seconds == 0 || l.Bought)
}

// Slack returns how much of a limit a process may admit before its peers have acknowledged it: f of rule 5.
func Slack(quota, processes int64, bought bool) int64 {
	if bought || quota < 2*processes {
		return 1
	}
	return max(2, (quota+49)/50)
}

// Add counts what this process has admitted.
func (r *Records) Add(now time.Time, l Limit, cost, slack int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.claim(r.asked(now), l.Key, l.Seconds, l.Number); r.all[at].number == l.Number { // else another's clock has begun the next window
		r.add(at, cost, slack)
	}
}

// add counts what was admitted, and has it told (rule 7).
func (r *Records) add(at int, cost, slack int64) {
	rec := &r.all[at]
	rec.own.plus = min(rec.own.plus+uint64(cost), mostEver)
	if len(r.peers) == 0 && r.ready {
		rec.base = rec.own // a process that joins takes it over
	}
	unsent := int64(rec.own.plus - rec.lastTold().plus)
	// One that waits may have looked before this: what it waits for is told now. So is what the next would wait for.
	switch {
	case r.leaving || r.waiting[r.keys[at]] != nil || slack > 2 && int64(r.unacked(rec)) >= slack:
		r.tell(at, atOnce)
	case 2*unsent >= slack && unsent >= min(slack, 2) || r.live == 0:
		r.tell(at, soon)
	case rec.told.seq > 0: // peers have the record: it costs no place there, and few bytes
		r.tell(at, withOthers)
	}
}

// claim returns the place of a record, which may be a new one, and brings it to a window. In a full set the
// smallest makes room (rule 16).
func (r *Records) claim(now int64, key uint64, seconds, number uint32) int {
	at := r.place(key)
	least, weight := -1, uint64(math.MaxUint64)
	for i := at; i < at+setSize; i++ {
		if r.keys[i] == key {
			r.roll(i, seconds, number)
			return i
		}
		w := uint64(0)
		if rec := &r.all[i]; r.keys[i] != 0 && !rec.over(now) {
			w = 2 + 2*uint64(max(rec.sum(), rec.prev))
			if rec.seconds == 0 { // it took work: no flood of single requests pushes it out
				w++
			}
			if rec.sales != nil { // not told to the ledger yet
				w += 2 * uint64(rec.sales.sold)
			}
		}
		if w < weight {
			least, weight = i, w
		}
	}
	if weight > 0 {
		r.stats.Evicted++
	}
	r.release(r.keys[least])
	r.keys[least], r.all[least] = key, record{seconds: seconds, number: number, dirty: r.all[least].dirty, pairs: r.all[least].pairs[:0]}
	return least
}

// roll brings a record to a window. One that is further ahead than the next was written under a clock that
// was wrong, and is begun anew: what was counted here is in own counts. Unless it has begun: then it is asked late, and what
// peers have said of it stays.
func (r *Records) roll(at int, seconds, number uint32) {
	rec := &r.all[at]
	if rec.seconds != seconds { // a limit of a bought tally ends with that, or does no more, since PassTime is another
		rec.seconds, rec.number = seconds, number
	}
	if rec.seconds == 0 || number == rec.number || number+1 == rec.number || number < rec.number && rec.begun(r.wall) {
		return
	}
	next := record{seconds: rec.seconds, number: number, dirty: rec.dirty, pairs: rec.pairs[:0]}
	if number == rec.number+1 {
		next.prev, next.prevBack = rec.sum()-rec.held, rec.back
	}
	next.held, next.own.plus = rec.held, uint64(rec.held)
	r.release(r.keys[at]) // little of the new window is unacknowledged
	if *rec = next; rec.held > 0 {
		r.tell(at, atOnce)
	}
}

// Refund gives back what this process has admitted in a window. Peers hear of it at once.
func (r *Records) Refund(l Limit, cost int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.find(l.Key)
	if at < 0 {
		return
	}
	switch rec := &r.all[at]; {
	case rec.number == l.Number:
		rec.own.minus += uint64(min(cost, int64(rec.own.net()-rec.held)))
		r.tell(at, atOnce)
	case rec.number == l.Number+1:
		rec.prev -= uint32(min(cost, int64(rec.prev)))
	}
}

// Hold counts what a request may turn out to use, until Settle: as admitted, so that no handler has to return
// before peers have heard. What is held when a window ends is held in the next.
func (r *Records) Hold(now time.Time, l Limit, cost, slack int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.claim(r.asked(now), l.Key, l.Seconds, l.Number)
	r.all[at].held = uint32(min(int64(r.all[at].held)+cost, most))
	r.add(at, cost, slack)
}

// Settle ends a hold: the request has used it, or it is given back. It returns how much of it was not held.
func (r *Records) Settle(l Limit, cost int64, used bool) (rest int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.find(l.Key)
	if at < 0 {
		return cost
	}
	rec := &r.all[at]
	held := uint32(min(cost, int64(rec.held)))
	rec.held -= held
	if !used && held > 0 {
		rec.own.minus += uint64(held)
		r.tell(at, atOnce)
	}
	return cost - int64(held)
}

// Wait returns a channel that is closed when peers have acknowledged something of a limit, and has what is
// unsent told at once (rule 6). It is not ok if the requests that wait already fill the rest of the limit. Ask again
// after Wait before you wait: an acknowledgement may have come in between. A request that gives up calls
// Left.
func (r *Records) Wait(l Limit, room int64) (freed <-chan struct{}, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.waiting[l.Key]
	if w == nil {
		w = &waiting{freed: make(chan struct{})}
	}
	if w.requests >= room {
		return nil, false
	}
	r.waiting[l.Key] = w
	w.requests++
	if at := r.find(l.Key); at >= 0 && r.all[at].own != r.all[at].lastTold() {
		r.tell(at, atOnce)
	}
	return w.freed, true
}

// Left says that a request does not wait any more on what Wait has returned.
func (r *Records) Left(l Limit, freed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.waiting[l.Key]; w != nil && w.freed == freed {
		if w.requests--; w.requests == 0 {
			delete(r.waiting, l.Key)
		}
	}
}

// Waited counts a request that has waited, in vain or not.
func (r *Records) Waited(busy bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Waited++
	if busy {
		r.stats.Busy++
	}
}
