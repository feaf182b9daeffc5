// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// The pace of what is told, and for how long a peer may owe an answer.
const (
	tellEach   = 500 * time.Millisecond
	tellAtMost = 5 * time.Millisecond
	lateAfter  = 100 * time.Millisecond
)

// Joined has a peer told from now on, from what the others have not acknowledged (rule 11). What they have acknowledged
// is in the chunks of any of them.
func (r *Records) Joined(now time.Time, name uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name == r.name || r.peers[name] != nil {
		return
	}
	r.placeOf(name)
	p := &peer{acked: r.acked, next: r.acked}
	if p.acked < r.seq {
		p.owes = now.UnixMicro()
	}
	r.peers[name] = p
	r.live++
	r.wake()
}

// Gone has a peer neither told nor waited for, from a time of windows on. What it has counted stays.
func (r *Records) Gone(now time.Time, name uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, n := r.peers[name], len(r.peers)+1
	if p == nil {
		return
	}
	r.sizes = append(slices.DeleteFunc(r.sizes, func(s size) bool { return s.processes <= n }), size{n, now.Unix()})
	delete(r.peers, name)
	if !p.late {
		r.live--
	}
	r.advance()
}

// Expire marks those late that have owed an answer for too long, and returns them (rule 10). No request waits for them.
func (r *Records) Expire(now time.Time) (late []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begin(now.UnixMicro()) // a peer that cannot be sent anything owes an answer too
	for name, p := range r.peers {
		if !p.late && p.owes > 0 && now.UnixMicro()-p.owes >= lateAfter.Microseconds() {
			p.late = true
			r.live--
			late = append(late, name)
		}
	}
	if late != nil {
		r.advance()
	}
	return late
}

// advance notes what all live peers have acknowledged by now.
func (r *Records) advance() {
	least := r.seq
	for _, p := range r.peers {
		if !p.late {
			least = min(least, p.acked)
		}
	}
	if least > r.acked || r.live == 0 {
		r.acked = max(r.acked, least)
		r.free()
	}
}

// Ready says that the records of a peer were taken over, or that there is none. Before that, acknowledgements
// free nothing.
func (r *Records) Ready() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = true
	r.free()
}

// Farewell has all told that was not, at once (rule 12).
func (r *Records) Farewell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaving = true
	for i := range r.all {
		if rec := &r.all[i]; r.keys[i] != 0 && (rec.dirty || rec.own != rec.lastTold()) {
			r.tell(i, atOnce)
		}
	}
}

// Drained reports whether all peers that are not late have acknowledged all.
func (r *Records) Drained() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.dirty) == 0 && r.acked >= r.seq
}

// Next returns when Expire and Batch are to be called again, by the clock of pace, which does not step. It is
// not ok where nothing is due.
func (r *Records) Next() (at time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := int64(math.MaxInt64)
	for _, p := range r.peers {
		if !p.late && p.owes > 0 {
			first = min(first, p.owes+lateAfter.Microseconds())
		}
		switch {
		case p.flying > 0:
		case p.acked < r.seq:
			first = min(first, p.last+tellAtMost.Microseconds())
		case len(r.dirty) > 0:
			first = min(first, max(r.nextRound(), p.last+tellAtMost.Microseconds()))
		}
	}
	return time.UnixMicro(first), first < math.MaxInt64
}

// nextRound returns when what is dirty is told (rule 8).
func (r *Records) nextRound() int64 {
	switch r.haste {
	case atOnce:
		return r.round + tellAtMost.Microseconds()
	case soon:
		return r.round + tellEach.Microseconds()
	}
	return math.MaxInt64
}

// Batch returns what a peer is to be told now; nil if that is nothing. It is under way until Answered or
// Lost.
func (r *Records) Batch(now time.Time, name uint64) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, us := r.peers[name], now.UnixMicro()
	if p == nil || p.flying > 0 || us < p.last+tellAtMost.Microseconds() {
		return nil
	}
	r.begin(us)
	var e encoder
	from, _ := slices.BinarySearchFunc(r.log, p.next+1, func(l entry, seq uint64) int { return cmp.Compare(l.seq, seq) })
	p.full = false
	for _, l := range r.log[from:] {
		if p.full = !e.room(); p.full {
			break
		}
		rec := &r.all[l.at]
		if p.flying = l.seq; rec.told.seq == l.seq && !rec.over(r.wall) {
			var buyers []uint64
			if rec.sales != nil {
				buyers = rec.sales.buyers
			}
			e.window(rec.seconds, rec.number, len(buyers))
			e.key(r.keys[l.at])
			e.pair(rec.own)
			for _, b := range buyers {
				e.key(b)
			}
		}
	}
	switch {
	case len(e.b) > 0:
	case p.late && p.flying > 0: // it is back when it answers, and the caller is to know that
		e.b = []byte{version}
	default: // nothing of it counts any more
		r.answered(us, p)
		return nil
	}
	p.last = us
	return e.b
}

// begin puts what is dirty into the next batches, if it is time.
func (r *Records) begin(now int64) {
	if len(r.dirty) == 0 || now < r.nextRound() {
		return
	}
	for _, at := range r.dirty {
		rec := &r.all[at]
		rec.dirty = false
		if rec.own == rec.lastTold() || r.keys[at] == 0 {
			continue
		}
		r.settle(rec)
		if rec.older.seq == 0 && rec.told.seq > r.acked {
			rec.older = rec.told
		}
		r.seq++
		rec.told = told{r.seq, rec.own}
		r.log = append(r.log, entry{r.seq, at})
	}
	if len(r.log) > 2*len(r.all) { // the last stays: what is told is acknowledged up to there
		last := len(r.log) - 1
		r.log = append(slices.DeleteFunc(r.log[:last:last], func(l entry) bool { return r.all[l.at].told.seq != l.seq }), r.log[last])
	}
	r.dirty, r.haste, r.round = r.dirty[:0], withOthers, now
	for _, p := range r.peers {
		if p.owes == 0 && p.acked < r.seq {
			p.owes = now
		}
	}
}

// Lost says that the batch under way may not have come to a peer. It is told again.
func (r *Records) Lost(name uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.peers[name]; p != nil {
		p.flying = 0
	}
}

// Answered says that a peer has taken the batch under way (rule 9). It is not ok if there is none. The peer is back if
// it was late, and is not any more.
func (r *Records) Answered(now time.Time, name uint64) (back, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.peers[name]
	if p == nil || p.flying == 0 {
		return false, false
	}
	return r.answered(now.UnixMicro(), p), true
}

func (r *Records) answered(now int64, p *peer) (back bool) {
	p.next, p.flying, p.owes = max(p.next, p.flying), 0, 0
	if !p.full { // else a record that was told before may have been told anew behind it, and was passed over
		p.acked = p.next
	}
	if p.acked < r.seq {
		p.owes = now
	}
	if p.late && p.acked >= r.acked {
		p.late, back = false, true
		r.live++
	}
	r.advance()
	return back
}

// Stats returns what has happened.
func (r *Records) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	for i := range r.all {
		if rec := &r.all[i]; r.keys[i] != 0 && !rec.over(r.wall) {
			s.Records++
			s.Unacked = max(s.Unacked, r.unacked(rec))
		}
	}
	return s
}

// lastTold returns what was told of a record last.
func (rec *record) lastTold() pair {
	if rec.told.seq > 0 {
		return rec.told.own
	}
	return rec.base
}

// settle notes what of a record all live peers have acknowledged.
func (r *Records) settle(rec *record) {
	switch {
	case rec.told.seq > 0 && rec.told.seq <= r.acked:
		rec.base.merge(rec.told.own)
		rec.older = told{}
	case rec.older.seq > 0 && rec.older.seq <= r.acked:
		rec.base.merge(rec.older.own)
		rec.older = told{}
	}
}

// unacked returns what some live peer has not acknowledged: u of rule 5. A process that does not know what was before it
// has been told frees nothing.
func (r *Records) unacked(rec *record) uint32 {
	r.settle(rec)
	switch {
	case !r.ready:
		return uint32(min(rec.own.plus, most))
	case r.live == 0:
		return 0
	}
	return uint32(min(rec.own.plus-rec.base.plus, most))
}

// tell has a record told with the next batches.
func (r *Records) tell(at int, when haste) {
	if len(r.peers) == 0 {
		return
	}
	if rec := &r.all[at]; !rec.dirty {
		rec.dirty = true
		r.dirty = append(r.dirty, uint32(at))
	}
	if when > r.haste {
		r.haste = when
		r.wake()
	}
}

// free wakes the requests that wait for what has been acknowledged.
func (r *Records) free() {
	for key := range r.waiting {
		if at := r.find(key); at >= 0 && r.live > 0 {
			rec := &r.all[at]
			was := rec.base
			if r.settle(rec); r.ready && rec.base == was {
				continue
			}
		}
		r.release(key)
	}
}
