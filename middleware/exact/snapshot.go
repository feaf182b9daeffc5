package exact

import "github.com/tallystick/tallystick/storeless"

// A Snapshot is how an account stands on an engine that does the arithmetic itself, in
// a script or in SQL, so that what it has decided can be told in full: make an
// [Account] of it as it stood before, and take the same calls.
type Snapshot struct {
	// States of the limits, in order, but for those with a trail.
	States [storeless.MaxLimits]storeless.State

	// Trails of sliding logs and rolling days.
	Trails [storeless.MaxLimits]Trail

	// Serial of the last receipt.
	Serial uint64
}

// A Trail is what a sliding log or a rolling day holds.
type Trail struct {
	// Used is the sum of all that counts.
	Used int64

	// Ends are the charges that end first, as many as the waits of the calls depend
	// on: one for calls that are admitted, and so many that there is room for the
	// dearest without them.
	Ends []End
}

// An End is what was charged and stops counting at the same moment.
type End struct {
	Until int64 // Unix ns
	Cost  int64
}

// Account returns the account under the limits of p.
func (s *Snapshot) Account(p *Policy) *Account {
	a := &Account{tally: s.States, ids: p.ids, serial: s.Serial}
	if !p.trail {
		return a
	}
	a.trails = new([storeless.MaxLimits]trail)
	for i := range p.limits {
		from, t := &s.Trails[i], &a.trails[i]
		t.used = from.Used
		for _, e := range from.Ends {
			t.marks = append(t.marks, mark{e.Until, e.Cost})
		}
	}
	return a
}
