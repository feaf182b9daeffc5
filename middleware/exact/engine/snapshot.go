// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/exact/internal/receipt"
)

// A Snapshot is an [Account] in the open: for an engine that does the arithmetic itself, in a
// script or in SQL, and keeps it in a form of its own. Make an Account of it as it stood before,
// and take the same calls, and what was decided can be told in full; or have it copied ([Record]).
type Snapshot struct {
	// Latest is the time of the last charge in Unix ns, 0 for none: see [Account] for a
	// clock that is behind it. Hold is for how long, in ns, the account then stands still at
	// most: as long as the longest window, or as the slowest bucket takes to empty. That a bucket
	// owes more is seen to.
	Latest, Hold int64

	// Limits has the count of each limit.
	Limits []LimitSnapshot

	// Serial of the last receipt.
	Serial uint64

	// Paused is before when nothing is admitted, in Unix ns; 0 for no pause.
	Paused int64

	// Booked is the last moment that a call is booked for, in Unix µs, 0 for none, and Since the
	// Serial before the first that is. (Serials of receipts are then those that the account
	// would give.)
	Booked int64
	Since  uint64

	// Floor is the Serial up to which nothing comes back any more, and Back which of those above it
	// came back, a bit for each, by Serial modulo 8, from the byte of the first on. An engine that
	// only takes calls needs neither.
	Floor uint64
	Back  []byte
}

// A LimitSnapshot holds the counts of one limit.
type LimitSnapshot struct {
	// ID is [exact.Policy.ID], and Ends the Unix second from which it counts nothing.
	ID   uint32
	Ends int64

	// Of a limit that keeps no log: of a window At is its number since 1970, Cur what was used in it, and
	// Prev what was in the one before; of a bucket At is its mark, in Unix µs.
	At        int64
	Cur, Prev uint32

	// Of a sliding log or a rolling day: Used is the sum of all that counts, and Charges are the charges
	// that end first, each with the time of its end, in Unix ns, and its cost. There are as many as the
	// waits of the calls depend on: one for calls that are admitted, and else enough that the dearest has
	// room without them. Charges that end between two moments that waits depend on may be summed in one,
	// which ends at the later.
	Used    int64
	Charges [][2]int64 // until, cost

	// Of a bucket, while calls are booked, in Unix µs: the mark that it had before the first of them, and
	// what was given back between that and its mark, in order.
	Base  int64
	Holes [][2]int64 // from, to
}

// Account returns the account.
func (s *Snapshot) Account() *Account {
	a := &Account{
		latest: s.Latest, hold: max(s.Hold, s.Paused-s.Latest), serial: s.Serial, entries: make([]entry, len(s.Limits)),
		refunds: refunds{s.Floor, slices.Clone(s.Back)}, paused: s.Paused, booked: s.Booked, since: s.Since,
	}
	if len(a.refunds.some) > 0 {
		a.refunds.some[0] &= 0xff << ((s.Floor + 1) % 8)
		a.refunds.trim()
	}
	for i := range s.Limits {
		of, e := &s.Limits[i], &a.entries[i]
		e.id, e.ends, e.state = of.ID, of.Ends, limiter.State{At: of.At, Cur: of.Cur, Prev: of.Prev}
		if isMark(of.At) {
			a.hold = max(a.hold, of.At*int64(time.Microsecond)-a.latest)
		}
		if s.Booked > 0 {
			e.line = &timeline{base: of.Base}
			for _, h := range of.Holes {
				e.line.holes = append(e.line.holes, span{h[0], h[1]})
			}
		}
		e.log.used = of.Used
		for _, end := range of.Charges {
			e.log.entries = append(e.log.entries, logEntry{end[0], end[1]})
		}
	}
	return a
}

// isMark tells the mark of a bucket, in µs since 1970, from the number of a window.
func isMark(at int64) bool { return at > math.MaxUint32 }

// Snapshot returns the account in the open, without the IDs that it remembers.
func (a *Account) Snapshot() Snapshot {
	a.refunds.follow(receipt.Lowest(a.serial))
	s := Snapshot{
		Latest: a.latest, Hold: a.hold, Serial: a.serial, Limits: make([]LimitSnapshot, len(a.entries)),
		Paused: a.paused, Booked: a.booked, Since: a.since, Floor: a.refunds.floor, Back: a.refunds.some,
	}
	for i := range a.entries {
		e, of := &a.entries[i], &s.Limits[i]
		of.ID, of.Ends, of.Used = e.id, e.ends, e.log.used
		of.At, of.Cur, of.Prev = e.state.At, e.state.Cur, e.state.Prev
		if e.line != nil {
			of.Base = e.line.base
			for _, h := range e.line.holes {
				of.Holes = append(of.Holes, [2]int64{h.from, h.to})
			}
		}
		for _, end := range e.log.entries {
			of.Charges = append(of.Charges, [2]int64{end.until, end.cost})
		}
	}
	return s
}
