// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/internal/plan"
	"github.com/tallystick/tallystick/middleware/exact/internal/receipt"
	"github.com/tallystick/tallystick/storeless"
)

// What is stored, as account.lua says, read and written without the script of a policy.

const (
	storedVersion = 4
	headSize      = 27
	idSize        = 40

	// Parts of an account, and the forms of what came back.
	partPause, partForm, partLines = 2, 4, 16

	formSome, formRing, formMany = 1, 2, 3 // 0: nothing has come back of few charges

	// A charged account has an entry, or load.lua takes it for a cut one. Where nothing counts
	// any more, the entry is of a limit that no policy has.
	noLimit = math.MaxUint32
)

var errStored = fmt.Errorf("%w: it is not as it was written, or of another version of this package", ErrUnreadable)

// isTrail tells the ID of a limit that keeps a log, see [exact.Policy.ID]. The log of a window of the calendar is in the account.
func isTrail(id uint32) bool { return id>>24 != 0 && !plan.IsCalendar(id) }

// window reads a window: where the ID of a limit is of the calendar, the second in which it ends, and what it counts.
func window(of *engine.LimitSnapshot, at, cur, prev uint32) {
	switch {
	case !plan.IsCalendar(of.ID):
		of.At, of.Cur, of.Prev = int64(at), cur, prev
	case cur > 0:
		of.Used, of.Charges = int64(cur), [][2]int64{{int64(at) * 1e9, int64(cur)}}
	}
}

// A tail is taken from its end.
type tail struct {
	rest  string
	short bool
}

func (t *tail) take(n int) *reply {
	if n < 0 || n > len(t.rest) {
		t.short, n = true, 0
	}
	r := &reply{rest: t.rest[len(t.rest)-n:]}
	t.rest = t.rest[:len(t.rest)-n]
	return r
}

// unpackAccount reads an account, but for its trails and IDs.
func unpackAccount(v string) (*engine.Snapshot, error) {
	head := reply{rest: v}
	version, kept, side, _ := head.byte(), int(head.byte()), head.byte(), head.uint32()
	s := &engine.Snapshot{Latest: head.double() * 1000, Hold: int64(storeless.MaxWindow), Serial: uint64(head.double())}
	expires := int64(head.uint32())
	if head.short || version != storedVersion {
		return nil, errStored
	}
	t := &tail{rest: head.rest}
	t.take(idSize * kept)
	if side&partPause != 0 {
		s.Paused = t.take(8).double() * 1000
	}
	lowest := receipt.Lowest(s.Serial)
	s.Floor = s.Serial - s.Serial%engine.Refundable
	switch side / partForm % 4 {
	case formMany:
		s.Floor = lowest
	case formSome:
		of := t.take(10)
		s.Floor = uint64(of.double())
		s.Back = []byte(t.take(int(of.uint16())).rest)
	case formRing:
		s.Floor, s.Back = lowest, receipt.Unring([]byte(t.take(receipt.RingSize).rest), s.Serial)
	}
	var lines reply
	if side >= partLines {
		of := t.take(20)
		s.Booked, s.Since = of.double(), uint64(of.double())
		lines.rest = t.take(int(of.uint32())).rest
	}
	entries := reply{rest: t.rest}
	for len(entries.rest) > 0 && !entries.short {
		of := engine.LimitSnapshot{ID: entries.uint32(), Ends: expires}
		if entries.byte() == 'w' {
			window(&of, entries.uint32(), entries.uint32(), entries.uint32())
		} else if n := entries.double(); !isTrail(of.ID) {
			of.At = n
		}
		if of.ID != noLimit {
			s.Limits = append(s.Limits, of)
		}
	}
	for len(lines.rest) > 0 && !lines.short {
		id, base := lines.uint32(), lines.double()
		var holes [][2]int64
		for range lines.uint16() {
			holes = append(holes, [2]int64{lines.double(), lines.double()})
		}
		for i := range s.Limits {
			if s.Limits[i].ID == id {
				s.Limits[i].Base, s.Limits[i].Holes = base, holes
			}
		}
	}
	if t.short || entries.short || lines.short || s.Serial > 0 && t.rest == "" {
		return nil, errStored
	}
	return s, nil
}

// unpackTrail reads a trail.
func unpackTrail(parts string) (used int64, charges [][2]int64) {
	for part := range strings.FieldsSeq(parts) {
		until, cost, _ := strings.Cut(part, ":")
		at, _ := strconv.ParseInt(until, 10, 64)
		n, _ := strconv.ParseInt(cost, 10, 64)
		charges = append(charges, [2]int64{at * 1000, n})
		used += n
	}
	return used, charges
}

// packAccount writes an account as it is stored, but for when it expires; and its trails by the IDs
// of their limits.
func packAccount(s *engine.Snapshot) (value []byte, trails map[uint32]string) {
	le, side := binary.LittleEndian, byte(0)
	double := func(ns int64) int64 { return (ns + 999) / 1000 } // µs: nothing counts for shorter
	value = append(value, storedVersion, 0, 0, 0, 0, 0, 0)
	value = pack(value, double(s.Latest), int64(s.Serial))
	value = le.AppendUint32(value, 0)
	trails = make(map[uint32]string)
	var lines []byte
	for i := range s.Limits {
		of := &s.Limits[i]
		switch {
		case len(of.Charges) > 0 && plan.IsCalendar(of.ID):
			value = le.AppendUint32(append(le.AppendUint32(value, of.ID), 'w'), uint32(of.Charges[0][0]/1e9))
			value = le.AppendUint32(le.AppendUint32(value, uint32(of.Used)), 0)
		case len(of.Charges) > 0:
			value = pack(append(le.AppendUint32(value, of.ID), 'n'), of.Used)
			trails[of.ID] = packTrail(of.Charges)
		case of.At > math.MaxUint32: // the mark of a bucket
			value = pack(append(le.AppendUint32(value, of.ID), 'n'), of.At)
		case of.Cur > 0 || of.Prev > 0:
			value = le.AppendUint32(append(le.AppendUint32(value, of.ID), 'w'), uint32(of.At))
			value = le.AppendUint32(le.AppendUint32(value, of.Cur), of.Prev)
		}
		if s.Booked > 0 && of.Base > 0 {
			lines = pack(le.AppendUint32(lines, of.ID), of.Base)
			lines = le.AppendUint16(lines, uint16(len(of.Holes)))
			for _, hole := range of.Holes {
				lines = pack(lines, hole[0], hole[1])
			}
		}
	}
	if len(value) == headSize && s.Serial > 0 {
		value = pack(append(le.AppendUint32(value, noLimit), 'n'), 0)
	}
	if s.Booked > 0 {
		side |= partLines
		value = pack(append(value, lines...), s.Booked, int64(s.Since))
		value = le.AppendUint32(value, uint32(len(lines)))
	}
	if len(s.Back) <= receipt.RingSize-10 || receipt.Lowest(s.Serial) == 0 {
		side |= formSome * partForm
		value = le.AppendUint16(pack(append(value, s.Back...), int64(s.Floor)), uint16(len(s.Back)))
	} else {
		side |= formRing * partForm
		value = append(value, receipt.Ring(s.Floor, s.Back, s.Serial)...)
	}
	if s.Paused > s.Latest {
		side |= partPause
		value = pack(value, double(s.Paused))
	}
	value[2] = side
	return value, trails
}

// packTrail writes a trail. No two of its parts end at the same time.
func packTrail(charges [][2]int64) string {
	var parts []byte
	for i := 0; i < len(charges); {
		until, cost := (charges[i][0]+999)/1000, int64(0)
		for ; i < len(charges) && (charges[i][0]+999)/1000 == until; i++ {
			cost += charges[i][1]
		}
		parts = append(strconv.AppendInt(parts, until, 10), ':')
		parts = append(strconv.AppendInt(parts, cost, 10), ' ')
	}
	return string(parts)
}
