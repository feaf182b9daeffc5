// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tallystick/tallystick/proof/lab/house"
)

// What befalls a ring of the instances, while an attacker drops its tokens on all of them.

// forget is longer than an instance remembers what another one has refused, in seconds.
const forget = 11

// members are the addresses of all instances in the ring, by their places.
func (s *scene) members() []string {
	return strings.Split(strings.TrimPrefix(s.House.Site.Counters[theRing], ringPrefix), ",")
}

// tell tells an instance who is in the ring, and cuts its links to some of the members.
func (s *scene) tell(place int, list, cut []string) {
	s.Fail(s.House.Instances[place].Post("members", "list", strings.Join(list, ","), "cut", strings.Join(cut, ",")))
}

// A slow client echoes its tokens, and has some requests left for whatever comes.
type slow struct {
	*scene
	address string
	post    func(n int)
	left    int
}

func (s *scene) slow() *slow {
	address := s.Host()
	return &slow{s, address, s.polite(func() string { return address }), int(s.route.Quota)}
}

// ask sends so many requests, if so many are left.
func (c *slow) ask(n int) {
	n = min(n, c.left)
	c.left -= n
	c.post(n)
}

// end sends those that are left and some more, which must be refused: a client that echoes gets L, whatever has come and gone.
func (c *slow) end() {
	c.post(c.left + 3)
	if admitted := c.Charged(c.row, c.address); admitted != c.route.Quota {
		c.Unjust.Note("a client that echoes was admitted %d times, and not %d", admitted, c.route.Quota)
	}
}

// acrossAll has an attacker drop before, and again after each of all instances has ended so and started anew: who has
// owned its key has done so once.
func acrossAll(end func(*house.Process) error) func(*scene) {
	return func(s *scene) {
		a, honest := s.attacker(), s.slow()
		across(s, len(s.House.Instances), end, func() {
			a.Drop()
			honest.ask(1)
		})
		honest.end()
	}
}

// owner has something open one account, and returns the place of the instance that has it.
func (s *scene) owner(do func()) (place int) {
	opened := func() (of []uint64) {
		for _, p := range s.House.Instances {
			state, err := p.State()
			s.Fail(err)
			of = append(of, state.Opened)
		}
		return of
	}
	before := opened()
	do()
	accounts := uint64(0)
	for i, n := range opened() {
		if n > before[i] {
			place, accounts = i, accounts+n-before[i]
		}
	}
	if accounts != 1 {
		s.Fail(fmt.Errorf("%d accounts were opened, and nobody knows whose the key is", accounts))
	}
	return place
}

// partitioned cuts the instances into two parts: here, with the owner of the key and the instance that has let the
// attacker in, and there, where nobody knows of it. At first neither part knows of the other: an outage. Then the
// lists of each name that part alone, so that a key has an owner in either. Then all is whole again.
func partitioned(s *scene) {
	a, honest, all := s.attacker(), s.slow(), s.members()
	owner := s.owner(a.Drop)
	var there []string
	for place := len(all) - 1; len(there) < len(all)/2; place-- {
		if place != owner {
			there = append(there, all[place])
		}
	}
	here := slices.DeleteFunc(slices.Clone(all), func(one string) bool { return slices.Contains(there, one) })
	parts := func(place int) (own, other []string) {
		if slices.Contains(there, all[place]) {
			return there, here
		}
		return here, there
	}
	honest.ask(2)
	s.listed(func(place int) (list, cut []string) {
		_, other := parts(place)
		return all, other
	})
	honest.ask(1) // in an outage its limit is that of the fallback
	a.Drop()
	s.listed(parts)
	together(a.Drop, s.honestly, func() { honest.ask(honest.left / 2) })
	s.listed(func(int) (list, cut []string) { return all, nil })
	a.Drop()
	honest.end()
}

// listed tells all instances, and moves the clock until none remembers a refusal.
func (s *scene) listed(of func(place int) (list, cut []string)) {
	for place := range s.members() {
		list, cut := of(place)
		s.tell(place, list, cut)
	}
	s.wait(forget)
}

// late has each member leave the ring and come again, of which the first instance hears 30 seconds after all others.
func late(s *scene) {
	a, honest, all := s.attacker(), s.slow(), s.members()
	for leaver := range all {
		for _, list := range [][]string{slices.Delete(slices.Clone(all), leaver, leaver+1), all} {
			for place := 1; place < len(all); place++ {
				s.tell(place, list, nil)
			}
			for _, seconds := range []int64{0, forget, 30 - forget} {
				s.wait(seconds)
				a.Drop()
			}
			honest.ask(1)
			s.tell(0, list, nil)
			a.Drop()
			honest.ask(1)
		}
	}
	honest.end()
}
