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

// A version begins every encoded [Account]. It rises when the form changes.
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
	switch {
	case len(b) == 0 || b[0] == 0:
		return errAccount
	case b[0] < version:
		return fmt.Errorf("exact: an account in format %d, of an earlier version, which is not read any more; this one knows %d", b[0], version)
	case b[0] > version:
		return fmt.Errorf("exact: an account in format %d, of a later version; this one knows %d", b[0], version)
	}
	d := decoder{rest: b[1:]}
	read := Account{latest: d.int(), hold: d.int()}
	read.serial = uint64(read.latest/1000 - d.int())
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
			d.failed = d.failed || j > 0 && m.until <= last || m.cost == 0
			last = m.until
			e.log.entries = append(e.log.entries, m)
			e.log.used += m.cost
		}
		d.failed = d.failed || e.log.used > 2*storeless.MaxQuota
	}
	form := byte(d.atMost(moreParts | formMany))
	read.refunds = d.refunds(read.serial, form&^moreParts)
	if form&moreParts != 0 {
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

// lines reads what is kept while calls are booked.
func (d *decoder) lines(a *Account) {
	a.since = a.serial - d.atMost(a.serial)
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
			a.serial = strconv.FormatUint(serial-uint64(d.int()), 36)
			if rest := d.bytes(d.length(maxSerial)); len(rest) > 0 {
				a.serial += string(rest)
			}
		}
		d.failed = d.failed || a.cost < 0
	}
	return r
}
