// SPDX-License-Identifier: Apache-2.0

package exact

import (
	"math"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// A Snapshot is how an account stands on an engine that does the arithmetic itself, in
// a script or in SQL, so that what it has decided can be told in full: make an
// [Account] of it as it stood before, and take the same calls.
type Snapshot struct {
	// Latest is the time of the last charge in Unix ns, 0 for none: see [Account] for a
	// clock that is behind it.
	Latest int64

	// States of the limits, in order, without those that keep a log.
	States [storeless.MaxLimits]storeless.State

	// Logs of sliding logs and rolling days.
	Logs [storeless.MaxLimits]Log

	// Serial of the last receipt.
	Serial uint64

	// Paused is before when nothing is admitted, in Unix ns; 0 for no pause.
	Paused int64

	// Booked is the last moment that a call is booked for, in Unix µs, 0 for none, Since the
	// Serial before the first that is, and Lines what of the buckets was given back. (Serials
	// of receipts are then those that the account would give.)
	Booked int64
	Since  uint64
	Lines  [storeless.MaxLimits]Line
}

// A Line is what is kept of a bucket while calls are booked, in Unix µs: the mark that it had
// before the first of them, and what was given back between that and its mark, in order.
type Line struct {
	Base  int64
	Holes [][2]int64 // from, to
}

// A Log is what a sliding log or a rolling day holds.
type Log struct {
	// Used is the sum of all that counts.
	Used int64

	// Entries are the charges that end first, as many as the waits of the calls depend
	// on: one for calls that are admitted, and so many that there is room for the
	// dearest without them. What ends between two moments that waits depend on may be
	// one entry, which ends at the later of them.
	Entries []LogEntry
}

// An LogEntry is what was charged and stops counting at the same moment.
type LogEntry struct {
	Until int64 // Unix ns
	Cost  int64
}

// Account returns the account under the limits of p.
func (s *Snapshot) Account(p *Policy) *Account {
	a := &Account{
		latest: s.Latest, hold: max(p.hold, s.Paused-s.Latest), serial: s.Serial, entries: make([]entry, len(p.limits)),
		paused: s.Paused, booked: s.Booked, since: s.Since,
	}
	for i := range p.limits {
		e := &a.entries[i]
		e.id, e.ends, e.state = p.ids[i], math.MaxInt64, s.States[i]
		if p.interval[i] > 0 {
			a.hold = max(a.hold, e.state.At*int64(time.Microsecond)-a.latest)
		}
		if s.Booked > 0 {
			e.line = &line{base: s.Lines[i].Base}
			for _, h := range s.Lines[i].Holes {
				e.line.holes = append(e.line.holes, span{h[0], h[1]})
			}
		}
		e.log.used = s.Logs[i].Used
		for _, end := range s.Logs[i].Entries {
			e.log.entries = append(e.log.entries, logEntry{end.Until, end.Cost})
		}
	}
	return a
}
