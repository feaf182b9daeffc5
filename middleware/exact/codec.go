package exact

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/tallystick/tallystick/storeless"
)

// version begins every encoded [Account].
const version = 2

var errAccount = errors.New("exact: not the bytes of an account, or of a later version")

// AppendBinary implements [encoding.BinaryAppender]: a version, then integers of
// variable length. What ends when is written as the distance from what ended before
// it, so that a minute of a rolling day takes some seven bytes. It cannot fail.
func (a *Account) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, version)
	b = binary.AppendVarint(b, a.latest)
	b = binary.AppendVarint(b, a.hold)
	b = binary.AppendUvarint(b, a.serial)
	b = binary.AppendUvarint(b, uint64(len(a.entries)))
	for i := range a.entries {
		e := &a.entries[i]
		b = binary.AppendUvarint(b, uint64(e.id))
		b = binary.AppendVarint(b, e.ends)
		b = binary.AppendVarint(b, e.state.At)
		b = binary.AppendUvarint(b, uint64(e.state.Cur))
		b = binary.AppendUvarint(b, uint64(e.state.Prev))
		b = binary.AppendUvarint(b, uint64(len(e.log.entries)))
		last := int64(0)
		for _, m := range e.log.entries {
			b = binary.AppendVarint(b, m.until-last)
			b = binary.AppendUvarint(b, uint64(m.cost))
			last = m.until
		}
	}
	b = binary.AppendUvarint(b, uint64(len(a.refunded)))
	for _, serial := range slices.Sorted(maps.Keys(a.refunded)) {
		b = binary.AppendUvarint(b, serial)
		b = binary.AppendVarint(b, a.refunded[serial])
	}
	return b, nil
}

// UnmarshalBinary implements [encoding.BinaryUnmarshaler]. It keeps nothing of b. It
// tells other bytes from those of an account as well as their form does; whether
// they have changed since is for the engine to know.
func (a *Account) UnmarshalBinary(b []byte) error {
	if len(b) == 0 || b[0] != version {
		return errAccount
	}
	d := decoder{rest: b[1:]}
	read := Account{latest: d.int(), hold: d.int(), serial: d.uint()}
	if n := d.length(maxEntries); n > 0 {
		read.entries = make([]entry, n)
	}
	for i := range read.entries {
		e := &read.entries[i]
		e.id = uint32(d.atMost(1<<32 - 1))
		e.ends = d.int()
		e.state = storeless.State{At: d.int(), Cur: uint32(d.atMost(storeless.MaxQuota)), Prev: uint32(d.atMost(storeless.MaxQuota))}
		if n := d.length(len(d.rest) / 2); n > 0 { // two bytes each at least
			e.log.entries = make([]logEntry, n)
		}
		last := int64(0)
		for j := range e.log.entries {
			m := logEntry{last + d.int(), int64(d.atMost(storeless.MaxQuota))}
			d.failed = d.failed || j > 0 && m.until <= last || m.cost == 0
			e.log.entries[j], last = m, m.until
			e.log.used += m.cost
		}
		d.failed = d.failed || e.log.used > 2*storeless.MaxQuota
	}
	if refunds := d.length(len(d.rest) / 2); refunds > 0 {
		read.refunded = make(map[uint64]int64, refunds)
		for range refunds {
			serial := d.uint()
			read.refunded[serial] = d.int()
		}
	}
	if d.failed || len(d.rest) > 0 {
		return errAccount
	}
	*a = read
	return nil
}

// A decoder reads integers until one is missing.
type decoder struct {
	rest   []byte
	failed bool
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
