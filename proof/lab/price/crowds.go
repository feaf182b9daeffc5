// SPDX-License-Identifier: Apache-2.0

package price

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/gossip"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
)

// A crowd is honest clients that are behind one address, and all want in.
type crowd struct {
	name   string
	people int
	within int64 // they come evenly, by chance
	days   int   // that follow each other; the last one counts
}

// crowds are those that an address has to hide, by default.
var crowds = []crowd{
	{"a café, 40 in 10 min", 40, 10 * minute, 1},
	{"a class, 30 in 1 min", 30, minute, 1},
	{"a school, 300 in 5 min", 300, 5 * minute, 1},
	{"a conference, 600 in 10 min", 600, 10 * minute, 1},
	{"a carrier, 1,200 in a day", 1200, day, 1},
	{"the same, on the third day", 1200, day, 3},
}

// Servers are instances that sell by a tariff, and their balancer.
type servers struct {
	instances int
	balance   balancer
	tariff    sale.Tariff
	peers     bool // they hear each other
}

// stalls returns the stalls of servers, and what carries all that they have to tell each other: instances apart have nothing.
func (f *servers) stalls() (all []*stall, tell func(now int64)) {
	var records []*gossip.Records
	for i := range f.instances {
		s, r := open(f.tariff, oneAddress), gossip.New(gossip.Config{Name: uint64(i + 1), Records: few})
		if f.peers {
			s.memory.Join(r, "contact")
			records = append(records, r)
		}
		s.issued = uint64(i) << 32
		for j := range f.instances {
			r.Joined(at(0), uint64(j+1))
		}
		r.Ready()
		all = append(all, s)
	}
	pace := at(0)
	return all, func(now int64) {
		pace = pace.Add(time.Second)
		for i, r := range records {
			for j, to := range records {
				if batch := r.Batch(pace, uint64(j+1)); batch != nil {
					_, _ = to.Hear(at(now), uint64(i+1), batch)
					r.Answered(pace, uint64(j+1))
				}
			}
		}
	}
}

// opened are stalls with the prices of the servers alone. A test holds that crowds meet the same at instances of the middleware.
func (f *servers) opened() (all []counter) {
	list, tell := f.stalls()
	for _, s := range list {
		s.told = tell
		all = append(all, s)
	}
	return all
}

const (
	patience   = 2 * minute // of the people of a crowd
	crowdSeeds = 3          // of each figure: their heads are counted together
)

// A welcome is how a crowd fared at a fleet.
type welcome struct {
	percent int   // that got in, rounded down: 99.9 % of a school is not all of it
	median  int64 // hashes, of a head that got in: for the tally, and in vain before
}

// String is what a page prints.
func (w welcome) String() string {
	return fmt.Sprintf("%d %%, %.1f W", w.percent, float64(w.median)/work)
}

// meets has a crowd come to counters, which are opened anew for each seed. Half of it are desktops, unless all have phones.
func (c crowd) meets(balance balancer, phones bool, opened func() []counter) welcome {
	var worked []int64
	for seed := range crowdSeeds {
		r := rand.New(rand.NewPCG(uint64(1+seed), uint64(c.people)))
		s := &street{counters: opened(), balance: balance, random: r, patience: patience}
		for d := range c.days {
			for range c.people {
				n := newcomer{arrives: int64(d)*c.within + r.Int64N(c.within), kind: r.IntN(2), at: r.IntN(1 << 20)}
				if phones {
					n.kind = phone
				}
				s.list = append(s.list, n)
			}
		}
		slices.SortFunc(s.list, func(a, b newcomer) int { return cmp.Compare(a.arrives, b.arrives) })
		s.until(int64(c.days)*c.within + patience)
		for _, n := range s.list[len(s.list)-c.people:] {
			if n.in {
				worked = append(worked, n.worked)
			}
		}
	}
	slices.Sort(worked)
	return welcome{100 * len(worked) / (c.people * crowdSeeds), worked[len(worked)/2]}
}

// burst is what a client gets of servers in one moment, with as many hashes for each: the tallies, and the requests of
// a use that it makes of them, at all stalls. It asks all of them again and again while any answers, and they hear of each other in between. Of
// each tally it spends all but one request at the first stall, so that each of the others admits one before it has heard of another.
func (f *servers) burst(u *use, purse int64) (tallies, requests int64) {
	all, tell := f.stalls()
	buyers := make([]attacker, len(all))
	for i := range buyers {
		buyers[i] = attacker{purse: purse, stock: true}
	}
	for before := int64(-1); before < tallies; tell(0) {
		before, tallies = tallies, 0
		for i, s := range all {
			buyers[i].look(s, 0)
			tallies += buyers[i].bought
		}
	}
	ask := func(stalls []*stall) {
		for _, seller := range all {
			for _, tally := range seller.sold {
				for _, s := range stalls {
					own := limiter.Candidate{Key: tally, Ends: at(u.life)}
					if _, v := s.memory.Take(at(0), u.pass, &own, 1); v.Admitted {
						requests++
					}
				}
			}
		}
		tell(0)
	}
	for range u.pass.Limit(0).Quota - 1 {
		ask(all[:1])
	}
	for before := int64(-1); before < requests; {
		before = requests
		ask(all)
	}
	return tallies, requests
}
