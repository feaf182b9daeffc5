// SPDX-License-Identifier: Apache-2.0

package price

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
)

// busy is how the newcomers of a day spread over its hours.
var busy = [24]int64{4, 3, 2, 2, 2, 3, 5, 8, 11, 13, 14, 14, 14, 14, 14, 14, 14, 14, 15, 16, 16, 14, 10, 6}

// Kinds of newcomers: a browser's script with one thread, and a slow phone's.
const (
	desktop = iota
	phone
)

// rates are their hashes a second.
var rates = [2]int64{4_000_000, 700_000}

// A newcomer wants one tally. It solves, and where the price has risen meanwhile it solves
// anew, until its patience ends.
type newcomer struct {
	arrives int64
	kind    int
	number  int64 // of its place
	at      int   // the instance that its balancer keeps it on
	worked  int64 // hashes, for a tally or in vain
	in      bool
}

// Puzzles in a proof, each with a hidden number below a span: the work is the mean.
const puzzles = 8

// hashes is how many hashes a proof of this work takes: a hidden number is met anywhere
// in its span, with the same chance.
func hashes(r *rand.Rand, work int64) (n int64) {
	span := max(1, 2*work/puzzles)
	for range puzzles {
		n += 1 + r.Int64N(span)
	}
	return n
}

// arrivals are the newcomers of some days: an average number a day, half of them
// phones. Each has a number below room, or 0 where there is none.
func arrivals(r *rand.Rand, days, daily, room int64) []newcomer {
	var all int64
	for _, share := range busy {
		all += share
	}
	list := make([]newcomer, days*daily)
	for i := range list {
		hours, share := int64(0), r.Int64N(all)
		for share >= busy[hours] {
			share -= busy[hours]
			hours++
		}
		list[i].arrives = r.Int64N(days)*day + hours*hour + r.Int64N(hour)
		list[i].kind = r.IntN(2)
		if room > 0 {
			list[i].number = r.Int64N(room)
		}
	}
	slices.SortFunc(list, func(a, b newcomer) int { return cmp.Compare(a.arrives, b.arrives) })
	return list
}

// An attempt is a newcomer that asks for a price, work 0, or that has finished its work.
type attempt struct {
	now int64
	who int
	offer
}

// earlier orders attempts.
func earlier(a, b attempt) int { return cmp.Or(cmp.Compare(a.now, b.now), cmp.Compare(a.who, b.who)) }

// A street is the counters of a site, the newcomers that come to them, and at most one attacker.
type street struct {
	counters []counter
	balance  balancer
	stall    *stall // the attacker's
	random   *rand.Rand
	list     []newcomer
	patience int64
	attacker *attacker
	came     int       // of the list
	open     []attempt // of these, the earliest first
}

// looks is how often an attacker asks for the price.
const looks = 2 * second

// run lets days pass, and adds how newcomers fare from the second on: on the first the level is new.
func (s *street) run(days int64, all *fared) {
	for now := int64(0); s.attacker != nil && now < days*day; now += looks {
		s.until(now)
		if now%hour == 0 {
			s.attacker.purse += s.attacker.hourly
		}
		s.attacker.look(s.stall, now)
	}
	s.until(days * day)
	for _, n := range s.list {
		if n.arrives >= day {
			all.came[n.kind]++
			if n.in {
				all.in[n.kind]++
			}
		}
	}
}

// until lets the newcomers do what they do before now.
func (s *street) until(now int64) {
	for {
		if s.came < len(s.list) && (len(s.open) == 0 || s.list[s.came].arrives < s.open[0].now) {
			s.open = slices.Insert(s.open, 0, attempt{now: s.list[s.came].arrives, who: s.came})
			s.came++
		}
		if len(s.open) == 0 || s.open[0].now >= now {
			return
		}
		next := s.open[0]
		s.open = s.open[1:]
		s.serve(next)
	}
}

// soldOut is how long a newcomer waits where there is no price, or none that the element pays.
const soldOut = 5 * second

// mostWork is what the element pays at most, unless it is told to.
const mostWork = 1 << 28

// serve has a newcomer do what our element does: it shows its proof to whatever instance its balancer picks. One that
// has a higher price refuses it, and its refusal has the next challenge.
func (s *street) serve(a attempt) {
	n := &s.list[a.who]
	counter := s.counters[s.balance(s.random, len(s.counters), n)]
	if n.in, a.offer = counter.serve(a.now, n.number, a.offer); n.in {
		return
	}
	wait, leaves := soldOut, n.arrives+s.patience
	if a.work > mostWork {
		a.offer = offer{}
	}
	if a.work > 0 {
		takes := hashes(s.random, a.work)
		wait = takes * second / rates[n.kind]
		n.worked += min(takes, (leaves-a.now)*rates[n.kind]/second)
	}
	if a.now += wait; a.now <= leaves {
		i, _ := slices.BinarySearchFunc(s.open, a, earlier)
		s.open = slices.Insert(s.open, i, a)
	}
}

// A fared is how newcomers fared: how many came of each kind, and how many of them got in.
type fared struct{ came, in [2]int64 }

func (c fared) percent(kind int) int64 {
	if c.came[kind] == 0 {
		return 0
	}
	return (200*c.in[kind] + c.came[kind]) / (2 * c.came[kind]) // rounded
}

// String is what a page prints.
func (c fared) String() string { return fmt.Sprintf("%d/%d", c.percent(desktop), c.percent(phone)) }

// A counter is where newcomers buy: a stall, or in tests an instance of the middleware.
type counter interface {
	// serve says whether the work that was asked for opens a tally, and if not what is asked for now. The zero offer asks for a price.
	serve(now, number int64, o offer) (bool, offer)
}

func (s *stall) serve(now, number int64, o offer) (bool, offer) {
	buyers := s.place.newcomer(s, number)
	if o.work > 0 && s.redeem(now, buyers, o.work) {
		return true, offer{}
	}
	return false, offer{work: s.price(now, buyers)}
}

// A balancer says where a request of a newcomer goes, of n instances.
type balancer func(r *rand.Rand, n int, c *newcomer) int

func byChance(r *rand.Rand, n int, _ *newcomer) int { return r.IntN(n) }

// byAddress keeps all of an address on one.
func byAddress(*rand.Rand, int, *newcomer) int { return 0 }

// days is how long newcomers are watched. The first is not counted.
const days = 4

// A siege is newcomers behind one address, and what an attacker behind it may spend.
type siege struct {
	place    place
	daily    int64 // newcomers
	patience int64
	hourly   int64 // hashes of the attacker; 0: there is none
	runs     int   // how often, with other newcomers
}

// random returns the numbers of one run. They depend on nothing but the newcomers, so
// that all rows of a table have the same ones.
func random(daily int64, run int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(daily), uint64(run)))
}

// met lets an attacker meet the newcomers, which are fresh in each run. Without a purse and a target there is none.
func (g *siege) met(a attacker) (all fared, spent int64) {
	for run := range g.runs {
		r, stall, mine := random(g.daily, run), open(usual, g.place), a
		s := &street{counters: []counter{stall}, balance: byAddress, stall: stall, random: r, patience: g.patience}
		s.list = arrivals(r, days, g.daily, g.place.room)
		if a.purse > 0 || a.hourly > 0 {
			s.attacker = &mine
		}
		s.run(days, &all)
		spent += mine.spent
	}
	return all, spent
}

// fared is the worst of what an attacker with this budget can do to desktops, and the worst of what it can do to phones. One
// attacker spends all at the start of each hour; the others have saved a day's budget, and buy only below what a victim can pay.
func (g *siege) fared() fared {
	worst, _ := g.met(attacker{hourly: g.hourly, stock: true})
	if g.hourly == 0 {
		return worst
	}
	for _, rate := range rates {
		affordable := rate * g.patience / second
		for _, target := range []int64{affordable / 2, affordable} {
			for _, stock := range []bool{false, true} {
				c, _ := g.met(attacker{purse: 24 * g.hourly, hourly: g.hourly, target: target, stock: stock})
				for kind := range rates {
					worst.in[kind] = min(worst.in[kind], c.in[kind]) // as many come to each
				}
			}
		}
	}
	return worst
}

// held is what it costs an hour to hold the price at a target, for an attacker with any budget, and whether fewer than one
// in fifty of the victims get in then.
func (g *siege) held(victims int, target int64, stock bool) (hourly int64, shut bool) {
	all, spent := g.met(attacker{purse: 1 << 60, target: target, stock: stock})
	return spent / int64(g.runs) / (days * 24), 50*all.in[victims] < all.came[victims]
}

// shut is what it costs an hour to shut the victims out: the cheapest of the attackers that hold the price at
// a target, from a third of what a victim can pay upwards, in steps of about an eighth.
func (g *siege) shut(victims int) (least int64) {
	for _, stock := range []bool{false, true} {
		for target := rates[victims] * g.patience / second / 3; ; target += target / 8 {
			if hourly, shut := g.held(victims, target, stock); shut {
				if least == 0 || hourly < least {
					least = hourly
				}
				break
			}
		}
	}
	return least
}
