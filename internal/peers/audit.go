// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// audit returns what is wrong with a workload of n requests: whether they were
// sent, whether all answers were the wanted ones, and whether exactly those
// clients asked that were meant to. nil means those whose turn it was.
func audit(seats []*seat, meant clients, n int) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if meant == nil {
		meant = due(seats)
	}
	seen := newClients(seats[0].population.size)
	var sum count
	for _, s := range seats {
		sum.sent += s.sent
		sum.alien += s.alien
		sum.mute += s.mute
		if sum.wrong == 0 {
			sum.odd = s.odd
		}
		sum.wrong += s.wrong
		seen.join(s.seen)
	}
	if sum.sent != n {
		fail("%d requests were sent, not %d", sum.sent, n)
	}
	if sum.wrong > 0 {
		fail("%d of %d answers are wrong, the first with status %d and %d bytes: %v",
			sum.wrong, sum.sent, sum.odd.status, sum.odd.body, sum.odd.header)
	}
	if sum.alien > 0 {
		fail("%d requests came from outside of the population", sum.alien)
	}
	if sum.mute > 0 {
		fail("%d answers say that the token was not accepted", sum.mute)
	}
	if !slices.Equal(seen, meant) {
		fail("%d different clients asked, not the %d that were meant to", seen.number(), meant.number())
	}
	return errors.Join(errs...)
}

// due returns the clients whose turn it was at seats that have counted.
func due(seats []*seat) clients {
	c := newClients(seats[0].population.size)
	for _, s := range seats {
		part := s.end - s.begin
		for j := range min(s.sent, part) {
			c.add(s.begin + (s.first-s.begin+j)%part)
		}
	}
	return c
}

// everybody returns all clients of a population.
func everybody(size int) clients {
	c := newClients(size)
	for i := range size {
		c.add(i)
	}
	return c
}

// clients are a set of them: a bit for each.
type clients []uint64

// newClients returns an empty set for so many. It has two lines of the cache at least: the
// sets of different seats are written to at one time.
func newClients(size int) clients {
	n := (size + 63) / 64
	return make(clients, n, max(n, 16))
}

func (c clients) add(i int) { c[i/64] |= 1 << (i % 64) }

func (c clients) join(others clients) {
	for i, w := range others {
		c[i] |= w
	}
}

func (c clients) number() (n int) {
	for _, w := range c {
		n += bits.OnesCount64(w)
	}
	return n
}
