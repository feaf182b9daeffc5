// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"slices"
	"time"
)

// Stats are counts of a [Group] since it was opened.
type Stats struct {
	_ [0]func() // fields may be added

	// List is what Members, DNS or Find has said last, Age how long ago, and Changes how often it was another.
	List    []string
	Age     time.Duration
	Changes uint64

	// Heard are the peers that this process hears. Silent are those whose answer is overdue, and addresses of the list at
	// which no peer is heard. Gone counts peers that were silent for 10 s, and Strangers connections without a secret.
	Heard, Silent   []string
	Gone, Strangers uint64

	// Records are the tallies that are remembered of the fleet, and Evicted how many were pushed out of the full table.
	Records int
	Evicted uint64

	// Waited requests were decided when peers had answered, and Busy ones were refused because none had in time. Slack is
	// the most of one tally that was admitted and not yet heard by all.
	Waited, Busy uint64
	Slack        uint32
}

// Stats returns the counts so far.
func (g *Group) Stats() Stats {
	r := g.records.Stats()
	g.mu.Lock()
	defer g.mu.Unlock()
	s := Stats{
		List: slices.Clone(g.roster.list), Changes: g.roster.changes, Gone: g.gone, Strangers: g.strangers,
		Records: r.Records, Evicted: r.Evicted, Waited: r.Waited, Busy: r.Busy, Slack: r.Unacked,
	}
	if s.List != nil {
		s.Age = time.Since(g.roster.at)
	}
	for _, p := range g.peers {
		if p.late || p.wire == nil {
			s.Silent = append(s.Silent, p.address)
		} else {
			s.Heard = append(s.Heard, p.address)
		}
	}
	for _, t := range g.roster.targets {
		if t.name != g.ours.name && g.peers[t.name] == nil {
			s.Silent = append(s.Silent, t.address)
		}
	}
	slices.Sort(s.Heard)
	slices.Sort(s.Silent)
	s.Silent = slices.Compact(without(s.Silent, s.Heard)) // a process may have been started again at its address
	return s
}
