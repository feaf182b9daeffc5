// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"encoding/binary"
	"errors"
	"time"
)

// MaxBatch is the most bytes of a batch, an answer and a chunk.
const MaxBatch = 32 << 10

const (
	version   = 1
	mostOfOne = 2*binary.MaxVarintLen32 + 9 + binary.MaxVarintLen32 + 1 + mostProcess*(1+2*binary.MaxVarintLen32) // bytes of a record
	maxSkew   = 5_000_000                                                                                         // µs, see limiter
)

// An encoder writes records: of each window its length and number, and of each record in it a key of 8 bytes and counts.
type encoder struct {
	b               []byte
	seconds, number uint32
}

func (e *encoder) room() bool { return len(e.b)+mostOfOne <= MaxBatch }

// window begins a record: a byte says whether it is of another window than the one before.
func (e *encoder) window(seconds, number uint32) {
	switch {
	case len(e.b) == 0:
		e.b = append(make([]byte, 0, 256), version)
	case seconds == e.seconds && number == e.number:
		e.b = append(e.b, 0)
		return
	}
	e.b = append(e.b, 1)
	e.count(seconds)
	e.count(number)
	e.seconds, e.number = seconds, number
}

func (e *encoder) key(k uint64)   { e.b = binary.BigEndian.AppendUint64(e.b, k) }
func (e *encoder) count(n uint32) { e.b = binary.AppendUvarint(e.b, uint64(n)) }
func (e *encoder) pair(p pair) {
	e.count(p.plus)
	e.count(p.minus)
}

var (
	errVersion   = errors.New("gossip: of another version")
	errMalformed = errors.New("gossip: malformed")
)

// A decoder reads what an encoder has written. After the first error it reads zeros.
type decoder struct {
	b               []byte
	seconds, number uint32
	err             error
}

func decode(b []byte) decoder {
	switch {
	case len(b) == 0 || len(b) > MaxBatch:
		return decoder{err: errMalformed}
	case b[0] != version:
		return decoder{err: errVersion}
	}
	return decoder{b: b[1:]}
}

func (d *decoder) more() bool { return d.err == nil && len(d.b) > 0 }

func (d *decoder) fail() {
	d.b, d.err = nil, errMalformed
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) window() {
	switch d.byte() {
	case 0:
	case 1:
		d.seconds, d.number = d.count(), d.count()
	default:
		d.fail()
	}
}

func (d *decoder) key() uint64 {
	if len(d.b) < 8 {
		d.fail()
		return 0
	}
	k := binary.BigEndian.Uint64(d.b)
	d.b = d.b[8:]
	return k
}

func (d *decoder) count() uint32 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 || n > most {
		d.fail()
		return 0
	}
	d.b = d.b[size:]
	return uint32(n)
}

func (d *decoder) pair() (p pair) {
	p.plus, p.minus = d.count(), d.count()
	if p.minus > p.plus {
		d.fail()
		return pair{}
	}
	return p
}

// Hear takes a batch of a peer, or nothing of it, and returns the answer. Ahead is by how much the peer's clock is ahead of
// this one at least, where that is more than the skew that is permitted: that part was not taken.
func (r *Records) Hear(now time.Time, name uint64, batch []byte) (answer []byte, ahead time.Duration, err error) {
	for d := decode(batch); ; {
		if !d.more() {
			if d.err != nil {
				return nil, 0, d.err
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
		return nil, 0, nil
	}
	place, us := r.placeOf(name), now.UnixMicro()
	for d := decode(batch); d.more(); {
		d.window()
		key, p := d.key(), d.pair()
		at, further := r.at(us, key, d.seconds, d.number)
		ahead = max(ahead, further)
		if at >= 0 {
			r.merge(at, place, p)
		}
		r.stats.Heard++
	}
	return nil, ahead, nil
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

// merge takes a pair of another process.
func (r *Records) merge(at, place int, p pair) {
	rec := &r.all[at]
	plus, minus := r.pairsOf(at)[place].merge(p)
	rec.others += plus - minus
	rec.back += minus
}

// Chunk returns records, all processes' pairs of each, from a place on, and where the next chunk begins; 0: this was the last.
func (r *Records) Chunk(now time.Time, from uint32) (chunk []byte, next uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := append(append([]uint64(nil), r.others...), r.name)
	e := encoder{b: append(make([]byte, 0, MaxBatch), version, byte(len(names)))}
	for _, n := range names {
		e.key(n)
	}
	us := now.UnixMicro()
	for at := int(from); at < len(r.all); at++ {
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
		for _, p := range append(append([]pair(nil), r.pairsOf(at)[:len(r.others)]...), rec.own) {
			if p != (pair{}) {
				know++
			}
		}
		e.b = append(e.b, byte(know))
		for i, p := range append(append([]pair(nil), r.pairsOf(at)[:len(r.others)]...), rec.own) {
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
	us, at := now.UnixMicro(), -1
	var names []uint64
	return chunkOf(chunk, func(name uint64) { names = append(names, name) }, func(seconds, number uint32, key uint64, prev uint32) {
		if at, _ = r.at(us, key, seconds, number); at >= 0 {
			r.all[at].prev = max(r.all[at].prev, prev)
		}
	}, func(i int, p pair) {
		if at >= 0 && names[i] != r.name {
			r.merge(at, r.placeOf(names[i]), p)
		}
	})
}

// chunkOf reads a chunk. Its functions may be nil.
func chunkOf(chunk []byte, process func(uint64), begin func(seconds, number uint32, key uint64, prev uint32), known func(int, pair)) error {
	d := decode(chunk)
	names := int(d.byte())
	if names > mostProcess+1 {
		d.fail()
	}
	for range names {
		if name := d.key(); process != nil {
			process(name)
		}
	}
	for d.more() {
		d.window()
		key, prev, pairs := d.key(), d.count(), int(d.byte())
		if begin != nil {
			begin(d.seconds, d.number, key, prev)
		}
		for range pairs {
			i, p := int(d.byte()), d.pair()
			if i >= names {
				d.fail()
			}
			if known != nil && d.err == nil {
				known(i, p)
			}
		}
	}
	return d.err
}
