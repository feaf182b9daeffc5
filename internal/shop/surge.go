// SPDX-License-Identifier: Apache-2.0

package shop

import (
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
)

// A Surge raises the work of all challenges while an instance sells more
// tallies than its owner planned for, and lowers it again: quickly up, slowly
// down, as Tor's proof-of-work defence does (proposal 327). It limits what a
// flood of addresses can do together, each of which still pays the base price.
//
// Of the budget one network can use up a quarter. Else a single client could make all
// others pay: by what it buys itself, or from the /64s of a network that it was given. It takes
// sales from five networks to raise anything.
//
// Safe for concurrent use; the clock is an argument.
type Surge struct {
	budget int64 // sales per interval

	mu    sync.Mutex
	began int64                // Unix second of the interval
	sold  int64                // in it, in quarters of a sale; of each network as many as budget
	by    [surgeNetworks]int64 // the same, by network
	calm  int64                // quiet intervals in a row
	level int                  // steps of one and a half above the base
}

const (
	surgeInterval = 10 // seconds
	surgeCalm     = 3  // intervals below half the budget until a step down
	surgeUp       = 2  // steps up for each interval over the budget: 2.25 times
	surgeTop      = 10 // steps; 57 times the base

	// surgeNetworks is how many networks are told apart. Two that are not share a
	// quarter of the budget.
	surgeNetworks = 256
)

// NewSurge returns a Surge for a budget of so many sales a minute, at least 1.
func NewSurge(perMinute int64) *Surge {
	budget := perMinute/60*surgeInterval + perMinute%60*surgeInterval/60
	return &Surge{budget: max(1, budget)}
}

// Sold counts a sale to a client of a network, which is named by a hash of the largest that
// one holder may have; see [limiter.Memory.Key].
func (s *Surge) Sold(now time.Time, network limiter.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roll(now.Unix())
	by := &s.by[network%surgeNetworks]
	more := min(4, s.budget-*by)
	within := s.sold <= 4*s.budget
	*by += more
	s.sold += more
	if within && s.sold > 4*s.budget { // at once, not when the interval is over
		s.level = min(s.level+surgeUp, surgeTop)
	}
}

// Work returns what a challenge should ask for in place of work: never less, and
// raised to most at the most.
func (s *Surge) Work(now time.Time, work, most int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roll(now.Unix())
	raised := work
	for range s.level {
		raised = min(most, raised+raised/2)
	}
	return max(work, raised)
}

// Worth returns the price that work covers at a redemption: the largest that [Surge.Work]
// would have raised to no more, one rise ago. Without it a challenge from an instance
// where all is calm would buy here at the price of there. One rise is forgiven, for clients
// that were solving while it happened.
func (s *Surge) Worth(now time.Time, work, most int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roll(now.Unix())
	if work >= most { // nothing asks for more
		return work
	}
	for range s.level - surgeUp {
		work = (2*work + 1) / 3 // the largest p of which p + p/2 is no more
	}
	return work
}

// roll ends the intervals that have passed. A reading that is older by less than
// an interval is one that waited for the lock; a clock that steps back further
// begins a new interval, in which nothing was quiet.
func (s *Surge) roll(now int64) {
	if now > s.began-surgeInterval && now < s.began+surgeInterval {
		return
	}
	passed := max(0, (now-s.began)/surgeInterval)
	if s.sold < 2*s.budget {
		s.calm += passed
	} else {
		s.calm = max(0, passed-1)
	}
	for ; s.calm >= surgeCalm && s.level > 0; s.calm -= surgeCalm {
		s.level--
	}
	s.began, s.sold, s.by = now-now%surgeInterval, 0, [surgeNetworks]int64{}
}
