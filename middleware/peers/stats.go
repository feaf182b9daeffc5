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

	// Heard are the peers that this process hears, Late those with an answer that is overdue. Gone counts peers that were
	// silent for 10 s, and Strangers connections without a secret.
	Heard, Late     []string
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
			s.Late = append(s.Late, p.address)
		} else {
			s.Heard = append(s.Heard, p.address)
		}
	}
	slices.Sort(s.Heard)
	slices.Sort(s.Late)
	return s
}
