// SPDX-License-Identifier: Apache-2.0

package price

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/tallystick/tallystick/internal/sale"
)

// A crowd is honest clients that are behind one address, and all want in.
type crowd struct {
	name       string
	people     int
	within     int64 // they come evenly, by chance
	days       int   // that follow each other; the last one counts
	phonesOnly bool  // else half of them are desktops
}

// crowds are those that an address has to hide, by default.
var crowds = []crowd{
	{name: "a café, 40 in 10 min", people: 40, within: 10 * minute},
	{name: "a class, 30 in 1 min", people: 30, within: minute},
	{name: "a school, 300 in 5 min", people: 300, within: 5 * minute},
	{name: "a conference, 600 in 10 min", people: 600, within: 10 * minute},
	{name: "a carrier, 1,200 in a day", people: 1200, within: day},
	{name: "the same, on the third day", people: 1200, within: day, days: 3},
}

// Servers are instances that sell by a tariff, and their balancer.
type servers struct {
	instances int
	balance   balancer
	tariff    sale.Tariff
	peers     bool // they hear each other
}

// opened are stalls with the prices of the servers alone. A test holds that crowds meet the same at instances of the middleware.
func (f *servers) opened() (all []counter) {
	list, tell := stalls(f.instances, f.tariff, f.peers)
	for _, s := range list {
		if f.peers {
			s.told = tell
		}
		all = append(all, s)
	}
	return all
}

// patience is how long the people of a crowd wait.
const patience = 2 * minute

// crowdSeeds are the seeds of each figure: their heads are counted together.
var crowdSeeds = []uint64{1, 2, 3}

// A welcome is how a crowd fared at a fleet.
type welcome struct {
	percent int   // that got in, rounded down: 99.9 % of a school is not all of it
	median  int64 // hashes, of a head that got in: for the tally, and in vain before
}

// String is what a page prints.
func (w welcome) String() string {
	return fmt.Sprintf("%d %%, %.1f W", w.percent, float64(w.median)/work)
}

// meets has a crowd come to servers, which are opened anew for each seed.
func (c crowd) meets(f servers, opened func() []counter) welcome {
	var worked []int64
	for _, seed := range crowdSeeds {
		r := rand.New(rand.NewPCG(seed, uint64(c.people)))
		s := &street{counters: opened(), balance: f.balance, random: r, patience: patience}
		days := max(1, c.days)
		for d := range days {
			for range c.people {
				n := newcomer{arrives: int64(d)*c.within + r.Int64N(c.within), kind: r.IntN(2), at: r.IntN(1 << 20)}
				if c.phonesOnly {
					n.kind = phone
				}
				s.list = append(s.list, n)
			}
		}
		slices.SortFunc(s.list, func(a, b newcomer) int { return cmp.Compare(a.arrives, b.arrives) })
		s.until(int64(days)*c.within + patience)
		for _, n := range s.list[len(s.list)-c.people:] {
			if n.in {
				worked = append(worked, n.worked)
			}
		}
	}
	slices.Sort(worked)
	return welcome{100 * len(worked) / (c.people * len(crowdSeeds)), worked[len(worked)/2]}
}
