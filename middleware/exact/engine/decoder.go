// SPDX-License-Identifier: Apache-2.0

package engine

import "encoding/binary"

// A decoder reads integers until one is missing.
type decoder struct {
	rest   []byte
	failed bool
}

// bytes returns the first n of the rest, or none.
func (d *decoder) bytes(n int) []byte {
	if n > len(d.rest) {
		d.failed, n = true, 0
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.rest)
	return skip(d, v, n)
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.rest)
	return skip(d, v, n)
}

func skip[T any](d *decoder, v T, n int) T {
	if n <= 0 {
		d.failed, n = true, 0
		v = *new(T)
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) atMost(most uint64) uint64 {
	v := d.uint()
	if v > most {
		d.failed = true
		return 0
	}
	return v
}

func (d *decoder) length(most int) int { return int(d.atMost(uint64(most))) }
