// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"slices"
	"time"
)

// Hear takes a batch of a peer, up to what is malformed: pairs are absolute. It is to be answered if there is
// no error: see Answered. Ahead is by how much the peer's clock is ahead of this one at least, where that is
// more than the skew that is permitted: that part was not taken.
func (r *Records) Hear(now time.Time, name uint64, batch []byte) (ahead time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := decode(batch)
	if name == r.name {
		return 0, d.err
	}
	place, us := r.placeOf(name), now.UnixMicro()
	r.wall = us
	for d.more() {
		d.window()
		key, p := d.key(), d.pair()
		buyers := d.buyers()
		if d.err != nil {
			break
		}
		at, further := r.at(us, key, d.seconds, d.number)
		ahead = max(ahead, further)
		if at < 0 {
			continue
		}
		if r.all[at].sum() > 0 {
			buyers = nil // they have been counted
		}
		r.merge(at, place, p)
		for _, b := range buyers {
			s := r.buyer(us, b)
			s.sold, s.last = s.sold+1, uint32(us/1_000_000)
		}
	}
	return ahead, d.err
}

// at returns the place of a record that was told, or -1 where its window says nothing: it has passed, or is
// further ahead than clocks may differ (rule 13).
func (r *Records) at(now int64, key uint64, seconds, number uint32) (at int, ahead time.Duration) {
	if key == 0 {
		return -1, 0
	}
	if seconds > 0 {
		length := int64(seconds) * 1_000_000
		begins := min(int64(number)*int64(seconds), 1<<33) * 1_000_000 // in centuries it is no overflow
		if further := begins - now; further > min(maxSkew, length/10) {
			return -1, time.Duration(further) * time.Microsecond
		}
		if begins+length <= now { // it has passed; one whose record has not rolled yet begins the next with it
			if at := r.find(key); at >= 0 && r.all[at].number == number && r.all[at].seconds == seconds {
				return at, 0
			}
			return -1, 0
		}
	} else if int64(number) < now/1_000_000 {
		return -1, 0
	}
	at = r.claim(now, key, seconds, number)
	if rec := &r.all[at]; rec.seconds != seconds || rec.number != number {
		return -1, 0
	}
	return at, 0
}

// merge takes a pair of another process.
func (r *Records) merge(at, place int, p pair) {
	rec := &r.all[at]
	plus, minus := rec.pairOf(place).merge(p)
	rec.others += plus - minus
	rec.back = uint32(min(uint64(rec.back)+minus, most))
}

// Chunk returns records, all processes' pairs of each, from a place on, and where the next chunk begins; 0:
// this was the last. The last pair has no name: processes that have no place any more have counted it.
func (r *Records) Chunk(now time.Time, from uint32) (chunk []byte, next uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := append(slices.Clone(r.others), r.name)
	e := encoder{b: append(make([]byte, 0, MaxBatch), version, byte(len(names)))}
	for _, n := range names {
		e.key(n)
	}
	e.count(uint32(len(r.ended)))
	for _, n := range r.ended {
		e.key(n)
	}
	us := now.UnixMicro()
	for at := int(min(from, uint32(len(r.all)))); at < len(r.all); at++ {
		rec := &r.all[at]
		if r.keys[at] == 0 || rec.over(us) || rec.sales != nil && rec.sales.buyers == nil { // what was sold to a buyer is not passed on
			continue
		}
		if !e.room() {
			return e.b, uint32(at)
		}
		e.window(rec.seconds, rec.number, 0)
		e.key(r.keys[at])
		e.count(rec.prev)
		know := len(e.b)
		e.b = append(e.b, 0)
		put := func(i int, p pair) {
			if p != (pair{}) {
				e.b[know]++
				e.b = append(e.b, byte(i))
				e.pair(p)
			}
		}
		for i, p := range rec.pairs {
			put(i, p)
		}
		put(len(r.others), rec.own)
		put(len(names), pair{plus: min(r.nameless(at), most)})
	}
	return e.b, 0
}

// TakeOver takes a chunk, up to what is malformed.
func (r *Records) TakeOver(now time.Time, chunk []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	us, d := now.UnixMicro(), decode(chunk)
	names := make([]uint64, d.byte())
	for i := range names {
		names[i] = d.key()
	}
	lives := false
	for n := d.count(); n > 0 && d.err == nil; n-- {
		if name := d.key(); d.err == nil {
			lives = !r.endedThere(name) || lives
		}
	}
	for d.more() {
		d.window()
		key, prev, pairs, at := d.key(), d.count(), d.byte(), -1
		if d.err == nil {
			at, _ = r.at(us, key, d.seconds, d.number)
		}
		if at >= 0 {
			r.all[at].prev = max(r.all[at].prev, prev)
		}
		for range pairs {
			i, p := int(d.byte()), d.pair()
			switch {
			case i > len(names):
				d.fail()
			case at < 0 || d.err != nil:
			case i == len(names):
				if n := r.nameless(at); !lives && p.plus > n { // processes have ended here that have a name there: the larger is a lower bound
					r.all[at].others += p.plus - n
				}
			case names[i] != r.name && !slices.Contains(r.ended, names[i]):
				r.merge(at, r.placeOf(names[i]), p)
			}
		}
	}
	return d.err
}

// endedThere takes a name that has no place with another process. It reports whether it has none here either
// from now on.
func (r *Records) endedThere(name uint64) bool {
	switch known := slices.Contains(r.ended, name); {
	case r.peers[name] != nil || name == r.name:
		return false // it lives
	case known:
		return true
	case len(r.ended) == mostEnded:
		return false
	}
	if i := slices.Index(r.others, name); i >= 0 {
		r.end(i)
	} else {
		r.ended = append(r.ended, name)
	}
	return true
}
