// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/tallystick/tallystick/middleware/exact/internal/plan"
	"github.com/tallystick/tallystick/storeless"
)

// A chargeLog holds what a sliding log or a rolling day remembers: charges in the order in which
// they end. Their sum is kept beside them, so that a decision, far from the limit and near it,
// looks at no more of them than have ended since the last. A window of the calendar is a log of one
// entry, that ends with the window.
type chargeLog struct {
	entries []logEntry
	used    int64 // their sum
}

// A logEntry sums the charges that count until the same moment.
type logEntry struct {
	until int64 // Unix ns: from then on it does not count
	cost  int64
}

// minute is the grain of a rolling day.
const minute = time.Minute

// until returns the moment from which a charge of the i-th limit does not count any more. In a
// rolling day that is when the end of its minute is a day old: a minute holds no
// order of what is in it, and to count it for too short would be over the limit.
func until(p *plan.Plan, i int, at time.Time) int64 {
	l := &p.Limits[i]
	switch {
	case p.Calendars[i] != nil:
		_, end := p.Calendars[i].Around(at)
		return end.UnixNano()
	case l.Algorithm == storeless.RollingDay:
		return at.Truncate(minute).Add(minute + plan.Day).UnixNano()
	}
	return at.Add(l.Window).UnixNano()
}

// roll forgets what does not count any more.
func (t *chargeLog) roll(now int64) {
	n := 0
	for ; n < len(t.entries) && t.entries[n].until <= now; n++ {
		t.used -= t.entries[n].cost
	}
	t.entries = t.entries[n:]
	if len(t.entries) == 0 {
		t.entries = nil // what is empty keeps no room
	}
}

// charge adds cost, although there may be no room for it, up to what a count can hold. A charge beyond the most entries
// joins the last of them, which then ends with it. Otherwise calls that are always admitted ([exact.Call.Past]) would
// make all others dear. Neither is given back then. No earlier charge ends later, but in a window of the calendar: time
// does not step back.
func (t *chargeLog) charge(until, cost int64, most int) {
	if cost = min(cost, storeless.MaxQuota-t.used); cost <= 0 {
		return
	}
	t.used += cost
	last := len(t.entries) - 1
	if last+1 >= most {
		t.entries[last].until = max(t.entries[last].until, until)
		until = t.entries[last].until
	}
	if last >= 0 && t.entries[last].until == until {
		t.entries[last].cost += cost
		return
	}
	t.entries = append(t.entries, logEntry{until, cost})
}

// restore takes cost back from what ends at a moment.
func (t *chargeLog) restore(until, cost int64) {
	i, found := slices.BinarySearchFunc(t.entries, until, func(m logEntry, until int64) int { return cmp.Compare(m.until, until) })
	if !found {
		return
	}
	cost = min(cost, t.entries[i].cost)
	t.entries[i].cost -= cost
	t.used -= cost
	if t.entries[i].cost == 0 {
		t.entries = slices.Delete(t.entries, i, i+1)
	}
}

// lookedAt is how many entries a wait looks at: a refusal costs about the same, however
// dear the call is. The redis package has the same number.
const lookedAt = 256

// wait returns for how long, in ns, a cost has no room in a quota that is at least as large; zero
// or less if it has. Beyond lookedAt entries it is rounded up: each of the others holds at least 1,
// so that no more of them need end than what is still over.
func (t *chargeLog) wait(now, quota, cost int64) int64 {
	over, last, i := t.used+cost-quota, now, 0
	for ; over > 0 && i < len(t.entries) && i < lookedAt; i++ {
		over, last = over-t.entries[i].cost, t.entries[i].until
	}
	if over > 0 && i < len(t.entries) {
		last = t.entries[min(int64(i)+over, int64(len(t.entries)))-1].until
	}
	return last - now
}

// status says how the limit stands for a call of a cost. The log is rolled.
func (t *chargeLog) status(now, quota, cost int64) (s storeless.LimitStatus) {
	s.Remaining = max(0, quota-t.used)
	switch {
	case cost > quota:
		s.Blocked = true
	case cost > s.Remaining:
		s.Blocked = true
		s.Reset = wholeSeconds(t.wait(now, quota, cost))
	case s.Remaining < quota:
		s.Reset = wholeSeconds(t.wait(now, quota, s.Remaining+1))
	}
	return s
}

// wholeSeconds rounds ns up to whole seconds.
func wholeSeconds(ns int64) time.Duration {
	return time.Duration(max(0, ns)+int64(time.Second)-1) / time.Second * time.Second
}
