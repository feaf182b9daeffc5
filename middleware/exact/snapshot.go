package exact

import (
	"math"

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
	a := &Account{latest: s.Latest, hold: p.hold, serial: s.Serial, entries: make([]entry, len(p.limits))}
	for i := range p.limits {
		e := &a.entries[i]
		e.id, e.ends, e.state = p.ids[i], math.MaxInt64, s.States[i]
		e.log.used = s.Logs[i].Used
		for _, end := range s.Logs[i].Entries {
			e.log.entries = append(e.log.entries, logEntry{end.Until, end.Cost})
		}
	}
	return a
}
