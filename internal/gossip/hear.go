// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"slices"
	"time"
)

const maxSkew = 5_000_000 // µs, see limiter

// Hear takes a batch of a peer, or nothing of it. It is to be answered if there is no error: see Answered. Ahead is by how much
// the peer's clock is ahead of this one at least, where that is more than the skew that is permitted: that part was not taken.
func (r *Records) Hear(now time.Time, name uint64, batch []byte) (ahead time.Duration, err error) {
	for d := decode(batch); ; {
		if !d.more() {
			if d.err != nil {
				return 0, d.err
			}
			break
		}
		d.window()
		d.key()
		d.pair()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if name == r.name {
		return 0, nil
	}
	place, us := r.placeOf(name), now.UnixMicro()
	r.wall = us
	for d := decode(batch); d.more(); {
		d.window()
		key, p := d.key(), d.pair()
		at, further := r.at(us, key, d.seconds, d.number)
		ahead = max(ahead, further)
		if at >= 0 {
			plus := r.merge(at, place, p)
			r.all[at].tellNews(us, plus)
		}
		r.stats.Heard++
	}
	return ahead, nil
}

// at returns the place of a record that was told, or -1 where its window says nothing: it has passed, or is further ahead
// than clocks may differ.
func (r *Records) at(now int64, key uint64, seconds, number uint32) (at int, ahead time.Duration) {
	if key == 0 {
		return -1, 0
	}
	if seconds > 0 {
		length := int64(seconds) * 1_000_000
		begins := int64(number) * length
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
	r.roll(at, number)
	if rec := &r.all[at]; rec.seconds != seconds || rec.number != number {
		return -1, 0
	}
	return at, 0
}

// tellNews notes what another process has admitted now.
func (rec *record) tellNews(now int64, plus uint32) {
	if plus > 0 {
		rec.news, rec.newsAt = min(rec.news+plus, most), uint32(now/1_000_000)
	}
}

// merge takes a pair of another process, and returns by how much its plus has risen.
func (r *Records) merge(at, place int, p pair) uint32 {
	rec := &r.all[at]
	plus, minus := r.pairsOf(at)[place].merge(p)
	rec.others += uint64(plus) - uint64(minus)
	rec.back = min(rec.back+minus, most)
	return plus
}

// Chunk returns records, all processes' pairs of each, from a place on, and where the next chunk begins; 0: this was the last. The last
// pair has no name: processes that have no place any more have counted it.
func (r *Records) Chunk(now time.Time, from uint32) (chunk []byte, next uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := append(append([]uint64(nil), r.others...), r.name)
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
		if r.keys[at] == 0 || rec.over(us) {
			continue
		}
		if !e.room() {
			return e.b, uint32(at)
		}
		e.window(rec.seconds, rec.number)
		e.key(r.keys[at])
		e.count(rec.prev)
		know := 0
		pairs := append(append([]pair(nil), r.pairsOf(at)[:len(r.others)]...), rec.own, pair{plus: uint32(min(r.nameless(at), most))})
		for _, p := range pairs {
			if p != (pair{}) {
				know++
			}
		}
		e.b = append(e.b, byte(know))
		for i, p := range pairs {
			if p != (pair{}) {
				e.b = append(e.b, byte(i))
				e.pair(p)
			}
		}
	}
	return e.b, 0
}

// TakeOver takes a chunk, or nothing of it.
func (r *Records) TakeOver(now time.Time, chunk []byte) error {
	if err := chunkOf(chunk, nil, nil, nil); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	us, at, lives := now.UnixMicro(), -1, false
	var names []uint64
	return chunkOf(chunk, func(name uint64, ended bool) {
		switch {
		case !ended:
			names = append(names, name)
		case r.peers[name] != nil || name == r.name:
			lives = true
		case !slices.Contains(r.ended, name) && len(r.ended) < mostEnded:
			if i := slices.Index(r.others, name); i >= 0 {
				r.end(i)
			} else {
				r.ended = append(r.ended, name)
			}
		case !slices.Contains(r.ended, name):
			lives = true // as if it did
		}
	}, func(seconds, number uint32, key uint64, prev uint32) {
		if at, _ = r.at(us, key, seconds, number); at >= 0 {
			r.all[at].prev = max(r.all[at].prev, prev)
		}
	}, func(i int, p pair) {
		switch {
		case at < 0:
		case i == len(names):
			if n := r.nameless(at); !lives && uint64(p.plus) > n { // processes have ended here that have a name there: the larger is a lower bound
				r.all[at].others += uint64(p.plus) - n
			}
		case names[i] != r.name && !slices.Contains(r.ended, names[i]):
			r.merge(at, r.placeOf(names[i]), p)
		}
	})
}
