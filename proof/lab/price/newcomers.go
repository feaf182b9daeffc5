// SPDX-License-Identifier: Apache-2.0

package price

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tallystick/tallystick/internal/sale"
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
	buyers  []sale.Buyer // nil: the one address
	at      int          // the instance that its balancer keeps it on
	worked  int64        // hashes, for a tally or in vain
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
// phones. comes names the buyers that a newcomer is.
func arrivals(r *rand.Rand, days, daily int64, comes func() []sale.Buyer) []newcomer {
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
		list[i].buyers = comes()
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
	balance  balancer // nil: there is one counter
	stall    *stall   // the attacker's
	random   *rand.Rand
	list     []newcomer
	patience int64
	attacker *attacker
	came     int       // of the list
	open     []attempt // of these, the earliest first
	fared    fared     // from the second day on: on the first the level is new
}

// looks is how often an attacker asks for the price.
const looks = 2 * second

// run lets days pass.
func (s *street) run(days int64) {
	for _, n := range s.list {
		if n.arrives >= day {
			s.fared.came[n.kind]++
		}
	}
	if s.attacker == nil {
		s.until(days * day)
		return
	}
	for now := int64(0); now < days*day; now += looks {
		s.until(now)
		if now%hour == 0 {
			s.attacker.purse += s.attacker.hourly
		}
		s.attacker.look(s.stall, now)
	}
}

// until lets the newcomers do what they do before now.
func (s *street) until(now int64) {
	for {
		next := attempt{now: math.MaxInt64}
		if s.came < len(s.list) {
			next = attempt{now: s.list[s.came].arrives, who: s.came}
		}
		again := len(s.open) > 0 && earlier(s.open[0], next) < 0
		if again {
			next = s.open[0]
		}
		if next.now >= now {
			return
		}
		if again {
			s.open = s.open[1:]
		} else {
			s.came++
		}
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
	n, i := &s.list[a.who], 0
	if s.balance != nil {
		i = s.balance(s.random, len(s.counters), n)
	}
	if a.work > 0 {
		n.in, a.offer = s.counters[i].sells(a.now, n, a.offer)
	} else {
		a.offer = s.counters[i].offers(a.now, n)
	}
	if n.in {
		if n.arrives >= day {
			s.fared.in[n.kind]++
		}
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
	// offers returns what is asked for at this moment.
	offers(now int64, n *newcomer) offer

	// sells says whether the work that was asked for opens a tally, and if not what is asked for now.
	sells(now int64, n *newcomer, o offer) (bool, offer)
}

// of is what a newcomer is to this memory.
func (s *stall) of(n *newcomer) []sale.Buyer {
	if n.buyers == nil {
		return s.v4(0)
	}
	return n.buyers
}

func (s *stall) offers(now int64, n *newcomer) offer { return offer{work: s.price(now, s.of(n))} }

func (s *stall) sells(now int64, n *newcomer, o offer) (bool, offer) {
	if s.redeem(now, s.of(n), o.work) {
		return true, offer{}
	}
	return false, s.offers(now, n)
}

// A balancer says where a request of a newcomer goes, of n instances.
type balancer func(r *rand.Rand, n int, c *newcomer) int

func byChance(r *rand.Rand, n int, _ *newcomer) int { return r.IntN(n) }

// byAddress keeps all of an address on one.
func byAddress(*rand.Rand, int, *newcomer) int { return 0 }
