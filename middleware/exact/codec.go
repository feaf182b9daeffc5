package exact

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/tallystick/tallystick/storeless"
)

// version begins every encoded [Account].
const version = 1

// flagTrails says that the states are followed by trails.
const flagTrails = 1

var errAccount = errors.New("exact: not the bytes of an account, or of a later version")

// AppendBinary implements [encoding.BinaryAppender]: a version, then integers of
// variable length. What ends when is written as the distance from what ended before
// it, so that a minute of a rolling day takes some seven bytes. It cannot fail.
func (a *Account) AppendBinary(b []byte) ([]byte, error) {
	n := len(a.ids)
	for n > 0 && a.ids[n-1] == 0 {
		n--
	}
	flags := byte(0)
	if a.trails != nil {
		flags |= flagTrails
	}
	b = append(b, version, flags)
	b = binary.AppendVarint(b, a.latest)
	b = binary.AppendVarint(b, a.expires)
	b = binary.AppendUvarint(b, a.serial)
	b = binary.AppendUvarint(b, uint64(n))
	for i := range n {
		b = binary.AppendUvarint(b, uint64(a.ids[i]))
		b = binary.AppendVarint(b, a.tally[i].At)
		b = binary.AppendUvarint(b, uint64(a.tally[i].Cur))
		b = binary.AppendUvarint(b, uint64(a.tally[i].Prev))
		if a.trails == nil {
			continue
		}
		marks, last := a.trails[i].marks, int64(0)
		b = binary.AppendUvarint(b, uint64(len(marks)))
		for _, m := range marks {
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
	if len(b) < 2 || b[0] != version || b[1]&^flagTrails != 0 {
		return errAccount
	}
	d := decoder{rest: b[2:]}
	read := Account{latest: d.int(), expires: d.int(), serial: d.uint()}
	if b[1]&flagTrails != 0 {
		read.trails = new([storeless.MaxLimits]trail)
	}
	n := d.length(storeless.MaxLimits)
	for i := range n {
		read.ids[i] = uint32(d.atMost(1<<32 - 1))
		read.tally[i] = storeless.State{At: d.int(), Cur: uint32(d.atMost(storeless.MaxQuota)), Prev: uint32(d.atMost(storeless.MaxQuota))}
		if read.trails == nil {
			continue
		}
		t, last := &read.trails[i], int64(0)
		if marks := d.length(len(d.rest) / 2); marks > 0 { // two bytes each at least
			t.marks = make([]mark, marks)
		}
		for j := range t.marks {
			m := mark{last + d.int(), int64(d.atMost(storeless.MaxQuota))}
			d.failed = d.failed || j > 0 && m.until <= last
			t.marks[j], last = m, m.until
			t.used += m.cost
		}
		d.failed = d.failed || t.used > 2*storeless.MaxQuota
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
