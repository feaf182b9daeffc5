// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"slices"

	"github.com/tallystick/tallystick/internal/shop"
)

// busy is how the newcomers of a day spread over its hours.
var busy = [24]int64{4, 3, 2, 2, 2, 3, 5, 8, 11, 13, 14, 14, 14, 14, 14, 14, 14, 14, 15, 16, 16, 14, 10, 6}

// Puzzles in a proof, each with a hidden number below a span: the work is the mean.
const puzzles = 8

// A newcomer wants one tally. It solves, and where the price has risen meanwhile it solves
// anew, until its patience ends.
type newcomer struct {
	arrives int64
	phone   bool
	buyers  []shop.Buyer
}

func (n *newcomer) rate() int64 {
	if n.phone {
		return phone
	}
	return desktop
}

// hashes is how many hashes a proof of this work takes: a hidden number is met anywhere
// in its span, with the same chance.
func hashes(r *rand.Rand, work int64) (n int64) {
	span := max(1, 2*work/puzzles)
	for range puzzles {
		n += 1 + r.Int64N(span)
	}
	return n
}

// arrivals are the newcomers of so many days: so many a day on average, half of them
// phones. place names the buyers that a newcomer is.
func arrivals(r *rand.Rand, days, daily int64, place func(*rand.Rand) []shop.Buyer) []newcomer {
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
		n := &list[i]
		n.arrives = r.Int64N(days)*day + hours*hour + r.Int64N(hour)
		n.phone = r.IntN(2) == 1
		n.buyers = place(r)
	}
	slices.SortFunc(list, func(a, b newcomer) int { return cmp.Compare(a.arrives, b.arrives) })
	return list
}

// An attempt is a newcomer that asks for a price, work 0, or that has finished its work.
type attempt struct {
	now  int64
	who  int
	work int64
}

// attempts is a heap, the earliest first.
type attempts []attempt

func (a attempts) Len() int { return len(a) }
func (a attempts) Less(i, j int) bool {
	return a[i].now < a[j].now || a[i].now == a[j].now && a[i].who < a[j].who
}
func (a attempts) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *attempts) Push(x any)   { *a = append(*a, x.(attempt)) }
func (a *attempts) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// A street is a stall, the newcomers that come to it, and at most one attacker.
type street struct {
	stall    *stall
	random   *rand.Rand
	list     []newcomer
	patience int64
	attacker *attacker
	open     attempts
	got      []bool
}

// looks is how often an attacker asks for the price.
const looks = 2 * second

// run lets days pass.
func (s *street) run(days int64) {
	s.got = make([]bool, len(s.list))
	for i := range s.list {
		s.open = append(s.open, attempt{now: s.list[i].arrives, who: i})
	}
	heap.Init(&s.open)
	if s.attacker == nil {
		s.until(days * day)
		return
	}
	for now := int64(0); now < days*day; now += looks {
		s.until(now)
		if now%hour == 0 {
			s.attacker.earn()
		}
		s.attacker.look(s.stall, now)
	}
}

// until lets the newcomers do what they do before now.
func (s *street) until(now int64) {
	for len(s.open) > 0 && s.open[0].now < now {
		s.serve(heap.Pop(&s.open).(attempt))
	}
}

// soldOut is how long a newcomer waits where there is no price at all.
const soldOut = 5 * second

func (s *street) serve(a attempt) {
	n := &s.list[a.who]
	if a.work > 0 && s.stall.redeem(a.now, n.buyers, a.work) {
		s.got[a.who] = true
		return
	}
	wait := soldOut
	if a.work = s.stall.price(a.now, n.buyers); a.work > 0 {
		wait = hashes(s.random, a.work) * second / n.rate()
	}
	if a.now += wait; a.now <= n.arrives+s.patience {
		heap.Push(&s.open, a)
	}
}

// A share is of newcomers: how many came, and how many of them got in.
type share struct{ came, in int64 }

func (s share) percent() int64 {
	if s.came == 0 {
		return 0
	}
	return (200*s.in + s.came) / (2 * s.came) // rounded
}

func (s share) plus(other share) share { return share{s.came + other.came, s.in + other.in} }

// A crowd is how the newcomers fared: desktops and phones.
type crowd struct{ desktops, phones share }

func (c crowd) plus(other crowd) crowd {
	return crowd{c.desktops.plus(other.desktops), c.phones.plus(other.phones)}
}

// fared counts those that came from the second day on: on the first the level is new.
func (s *street) fared() (c crowd) {
	for i := range s.list {
		n := &s.list[i]
		if n.arrives < day {
			continue
		}
		kind := &c.desktops
		if n.phone {
			kind = &c.phones
		}
		kind.came++
		if s.got[i] {
			kind.in++
		}
	}
	return c
}
