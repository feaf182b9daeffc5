// SPDX-License-Identifier: Apache-2.0

package ring

import "time"

// Stats are counts of a [Ring] since it was opened.
type Stats struct {
	_ [0]func() // fields may be added

	// Members are the addresses of all processes, by the list of this one; Changes is how often it was another, and
	// Age how long ago it was told last.
	Members []string
	Changes uint64
	Age     time.Duration

	// Accounts is how many accounts this process has now, and Opened how many it has begun.
	Accounts int
	Opened   uint64

	// Own calls were decided here at once, Out were asked of others, and Served were asked by others. Of those that
	// were served, Foreign were for keys that another owns by the list of this process: two lists differ.
	Own, Out, Served, Foreign uint64
}

// Stats returns the counts so far.
func (r *Ring) Stats() Stats {
	c := &r.counts
	s := Stats{Changes: r.roster.changes.Load(), Own: c.own.Load(), Out: c.out.Load(), Served: c.served.Load(), Foreign: c.foreign.Load()}
	if now := r.roster.list(); now != nil {
		s.Members, s.Age = now.addresses(), time.Since(time.Unix(0, r.roster.listedAt.Load()))
	}
	s.Accounts, s.Opened = r.memory.(interface{ Accounts() (int, uint64) }).Accounts()
	return s
}
