// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"encoding/binary"
	"errors"
)

// MaxBatch is the most bytes of a batch, an answer and a chunk.
const MaxBatch = 32 << 10

// MaxBuyers is how many buyers a tally may have.
const MaxBuyers = 3

const (
	version   = 1
	mostOfOne = 2*binary.MaxVarintLen32 + 9 + binary.MaxVarintLen32 + 1 + (MostProcesses+2)*(1+2*binary.MaxVarintLen64) // bytes of a record
)

// An encoder writes records: of each window its length and number, and of each record in it a key of 8 bytes,
// counts, and the keys of buyers.
type encoder struct {
	b               []byte
	seconds, number uint32
}

func (e *encoder) room() bool { return len(e.b)+mostOfOne <= MaxBatch }

// window begins a record: a byte says whether it is of another window than the one before, and how many
// buyers it names.
func (e *encoder) window(seconds, number uint32, buyers int) {
	head := byte(buyers) << 1
	switch {
	case len(e.b) == 0:
		e.b = append(make([]byte, 0, 256), version)
	case seconds == e.seconds && number == e.number:
		e.b = append(e.b, head)
		return
	}
	e.b = append(e.b, head|1)
	e.count(seconds)
	e.count(number)
	e.seconds, e.number = seconds, number
}

func (e *encoder) key(k uint64)   { e.b = binary.BigEndian.AppendUint64(e.b, k) }
func (e *encoder) count(n uint32) { e.b = binary.AppendUvarint(e.b, uint64(n)) }
func (e *encoder) pair(p pair) {
	e.b = binary.AppendUvarint(binary.AppendUvarint(e.b, p.plus), p.minus)
}

var errMalformed = errors.New("gossip: malformed, or of another version")

// A decoder reads what an encoder has written. After the first error it reads zeros.
type decoder struct {
	b               []byte
	seconds, number uint32
	named           int // buyers of the record
	err             error
}

func decode(b []byte) decoder {
	if len(b) == 0 || len(b) > MaxBatch || b[0] != version {
		return decoder{err: errMalformed}
	}
	return decoder{b: b[1:]}
}

func (d *decoder) more() bool { return d.err == nil && len(d.b) > 0 }

func (d *decoder) fail() { d.b, d.err = nil, errMalformed }

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
	head := d.byte()
	if head&1 == 1 {
		d.seconds, d.number = d.count(), d.count()
	}
	if d.named = int(head >> 1); d.named > MaxBuyers {
		d.fail()
	}
}

func (d *decoder) buyers() (keys []uint64) {
	for range d.named {
		keys = append(keys, d.key())
	}
	return keys
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

func (d *decoder) count() uint32 { return uint32(d.upTo(most)) }

func (d *decoder) upTo(largest uint64) uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 || n > largest {
		d.fail()
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) pair() (p pair) {
	p.plus, p.minus = d.upTo(mostEver), d.upTo(mostEver)
	if p.minus > p.plus {
		d.fail()
		return pair{}
	}
	return p
}
