// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// A version begins every encoded [Account]. Three before are read: the first had no hold, and up
// to the third there was a list of the receipts that were given back, and behind it, in the third,
// what else is rare.
const version = 4

// moreParts says, beside the form of what came back, that something follows of what is rare.
const moreParts = 4

var errAccount = errors.New("exact: not the bytes of an account")

// AppendBinary implements [encoding.BinaryAppender]: a version, then integers of variable length.
// Each end is written as the distance from the end before it, so that a minute of a rolling day
// takes some seven bytes. It cannot fail.
func (a *Account) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, version)
	b = binary.AppendVarint(b, a.latest)
	b = binary.AppendVarint(b, a.hold)
	b = binary.AppendVarint(b, a.latest/1000-int64(a.serial)) // at first they are near
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
	at := len(b)
	b, form := a.refunds.append(append(b, 0), a.serial)
	more := a.paused > a.latest || len(a.answers) > 0 || a.booked != 0
	if b[at] = form; !more {
		return b, nil
	}
	b[at] |= moreParts
	b = binary.AppendVarint(b, a.paused)
	b = a.answers.append(b, a.latest, a.serial)
	b = binary.AppendVarint(b, a.booked)
	if a.booked == 0 {
		return b, nil
	}
	b = binary.AppendUvarint(b, a.serial-a.since)
	for i := range a.entries {
		l := a.entries[i].line
		if l == nil {
			l = new(timeline)
		}
		b = binary.AppendVarint(b, l.base)
		b = binary.AppendUvarint(b, uint64(len(l.holes)))
		last := l.base
		for _, h := range l.holes {
			b = binary.AppendUvarint(b, uint64(h.from-last))
			b = binary.AppendUvarint(b, uint64(h.to-h.from))
			last = h.to
		}
	}
	return b, nil
}

// append writes answers, of an account that was last charged at a time, with a serial.
func (r answers) append(b []byte, latest int64, serial uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(r)))
	for i := range r {
		b = append(b, r[i].id[:]...)
		b = binary.AppendVarint(b, r[i].given-latest)
		b = binary.AppendVarint(b, r[i].cost)
		if r[i].cost > 0 {
			b = binary.AppendVarint(b, r[i].at-r[i].given)
			number, _, _ := strings.Cut(r[i].serial, "_")
			is, _ := strconv.ParseUint(number, 36, 64) // it is ours
			rest := r[i].serial[len(number):]
			b = binary.AppendVarint(b, int64(serial-is))
			b = binary.AppendUvarint(b, uint64(len(rest)))
			b = append(b, rest...)
		}
	}
	return b
}

// UnmarshalBinary implements [encoding.BinaryUnmarshaler]. It keeps nothing of b. It recognizes the
// bytes of an account by their form alone; the engine must know whether they have changed since.
func (a *Account) UnmarshalBinary(b []byte) error {
	if len(b) == 0 || b[0] < 1 {
		return errAccount
	}
	if b[0] > version {
		return fmt.Errorf("exact: an account in format %d, of a later version; this one knows %d", b[0], version)
	}
	d := decoder{rest: b[1:], version: b[0]}
	read := Account{latest: d.int(), hold: int64(storeless.MaxWindow)}
	if d.version > 1 {
		read.hold = d.int()
	}
	if d.version < version {
		read.serial = d.uint()
	} else {
		read.serial = uint64(read.latest/1000 - d.int())
	}
	if n := d.length(maxEntries); n > 0 {
		read.entries = make([]entry, n)
	}
	for i := range read.entries {
		e := &read.entries[i]
		e.id = uint32(d.atMost(1<<32 - 1))
		e.ends = d.int()
		e.state = limiter.State{At: d.int(), Cur: uint32(d.atMost(storeless.MaxQuota)), Prev: uint32(d.atMost(storeless.MaxQuota))}
		n := d.length(len(d.rest) / 2) // two bytes each at least
		if n > 0 {
			e.log.entries = make([]logEntry, 0, n)
		}
		last := int64(0)
		for j := range n {
			m := logEntry{last + d.int(), int64(d.atMost(storeless.MaxQuota))}
			d.failed = d.failed || j > 0 && m.until <= last || m.cost == 0 && d.version > 2
			last = m.until
			if m.cost > 0 { // up to the second version what came back whole was left
				e.log.entries = append(e.log.entries, m)
				e.log.used += m.cost
			}
		}
		d.failed = d.failed || e.log.used > 2*storeless.MaxQuota
	}
	more := d.version == 3
	if d.version < version {
		d.former(&read)
	} else {
		form := byte(d.atMost(moreParts | formMany))
		read.refunds = d.refunds(read.serial, form&^moreParts)
		more = form&moreParts != 0
	}
	if more {
		read.paused = d.int()
		read.answers = d.answers(read.latest, read.serial)
		read.booked = d.int()
	}
	if read.booked != 0 {
		d.lines(&read)
	}
	if d.failed || len(d.rest) > 0 {
		return errAccount
	}
	*a = read
	return nil
}

// former reads what came back as the versions before wrote it: from when on each did not matter.
func (d *decoder) former(a *Account) {
	var serials []uint64
	for range d.length(len(d.rest) / 2) {
		serials = append(serials, d.uint())
		d.int()
	}
	if d.version == 3 {
		a.refunds.floor = d.uint()
	}
	d.failed = d.failed || a.refunds.floor > a.serial
	for _, serial := range serials {
		if d.failed = d.failed || serial > a.serial; !d.failed {
			a.refunds.give(serial, a.serial)
		}
	}
}

// lines reads what is kept while calls are booked.
func (d *decoder) lines(a *Account) {
	a.since = d.atMost(a.serial)
	if d.version == version {
		a.since = a.serial - a.since
	}
	d.failed = d.failed || a.booked < 0
	for i := range a.entries {
		l := &timeline{base: d.int()}
		if n := d.length(maxHoles); n > 0 {
			l.holes = make([]span, n)
		}
		last := l.base
		for j := range l.holes {
			from := last + int64(d.atMost(maxAway))
			last = from + int64(d.atMost(maxAway))
			d.failed = d.failed || last == from
			l.holes[j] = span{from, last}
		}
		d.failed = d.failed || l.base < 0 || len(l.holes) > 0 && (l.base == 0 || last > a.entries[i].state.At)
		if l.base > 0 {
			a.entries[i].line = l
		}
	}
}

// maxAway is further than anything on a line of what was booked is apart, in µs.
const maxAway = uint64(2 * storeless.MaxWindow / time.Microsecond)

// answers reads answers of an account that was last charged at a time, with a serial.
func (d *decoder) answers(latest int64, serial uint64) answers {
	n := d.length(keptAnswers)
	if n == 0 {
		return nil
	}
	r := make(answers, n)
	for i := range r {
		a := &r[i]
		d.failed = copy(a.id[:], d.bytes(len(a.id))) < len(a.id) || d.failed
		a.given, a.cost = latest+d.int(), d.int()
		if a.cost != 0 {
			a.at = a.given + d.int()
			if d.version == version {
				a.serial = strconv.FormatUint(serial-uint64(d.int()), 36)
			}
			if rest := d.bytes(d.length(maxSerial)); len(rest) > 0 {
				a.serial += string(rest)
			}
		}
		d.failed = d.failed || a.cost < 0
	}
	return r
}
