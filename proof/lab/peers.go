// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/house"
)

// Instances that hear each other, while something happens to them. Their clocks stand as all do; what they tell each other goes
// by the time of day.

// hears has a dropper for each step of some trouble: it asks all instances at once, again and again until that step is done,
// and once more when all are.
func hears(steps func(s *scene) []func(*dropper)) func(*scene) {
	return func(s *scene) {
		for _, step := range steps(s) {
			begun := make(chan struct{})
			d := &dropper{s.attacker(), s.starts.Load(), sync.OnceFunc(func() { close(begun) })}
			s.droppers = append(s.droppers, d)
			var done atomic.Bool
			together(func() {
				defer d.begin()
				defer done.Store(true)
				step(d)
			}, func() {
				for <-begun; !done.Load() && s.Ctx.Err() == nil; s.pause(20 * time.Millisecond) {
					d.everywhere()
				}
			})
		}
		for _, d := range s.droppers {
			d.everywhere()
		}
	}
}

func (d *dropper) everywhere() {
	d.Together(d.Instances(), func(i int) { d.Drain(fleet.Request{To: i}) })
}

func (s *scene) pause(d time.Duration) {
	select {
	case <-s.Ctx.Done():
	case <-time.After(d):
	}
}

func quiet(*scene) []func(*dropper) {
	return []func(*dropper){func(*dropper) {}}
}

// restarts replaces so many instances, one after the other, each when half of a limit is used up.
func restarts(s *scene, so int, end func(*house.Process) error) (steps []func(*dropper)) {
	for i := range so {
		steps = append(steps, func(d *dropper) {
			s.Away.Change()
			defer s.Away.Change()
			s.starts.Add(1)
			s.Fail(s.House.Restart(i, func(p *house.Process) error {
				for d.begin(); d.Gained().Admitted < s.route.Quota/2 && s.Ctx.Err() == nil; {
					s.pause(time.Millisecond)
				}
				s.troubled(i)
				return end(p)
			}))
		})
	}
	return steps
}

func deploys(s *scene) []func(*dropper) {
	return restarts(s, len(s.House.Instances), (*house.Process).End)
}

func kills(s *scene) []func(*dropper) {
	return restarts(s, 2, func(p *house.Process) error {
		p.Kill()
		return nil
	})
}

// lateList deploys while the list stays what it was, and stays that for a while.
func lateList(s *scene) []func(*dropper) {
	return append([]func(*dropper){func(*dropper) { s.House.ListStands = true }}, append(restarts(s, 2, (*house.Process).End), func(d *dropper) {
		d.begin()
		s.pause(s.scale.trouble)
		s.House.ListStands = false
		s.Fail(s.House.TellPeers())
	})...)
}

// stopped has an instance stand still, and go on.
func stopped(s *scene) []func(*dropper) {
	return []func(*dropper){func(d *dropper) {
		s.troubled(0)
		p := s.House.Instances[0]
		d.begin()
		s.Fail(p.Freeze())
		s.pause(s.scale.trouble)
		s.Fail(p.Thaw())
	}}
}

// cut has two parts of the fleet that do not hear each other.
func cut(s *scene) []func(*dropper) {
	n := len(s.House.Instances)
	return []func(*dropper){func(d *dropper) {
		d.begin()
		for i := range n / 2 {
			s.troubled(i)
		}
		s.Fail(s.House.Cut(n / 2))
		s.pause(s.scale.trouble)
		s.Fail(s.House.Cut(0))
	}}
}

// troubled notes that an instance, as it is now, is not heard from now on.
func (s *scene) troubled(i int) {
	if at := s.House.Instances[i].Where.Peers.String(); s.hearable(at, time.Now()) {
		s.silent[at] = time.Now()
	}
}

// judge returns what the dropper got that came closest to its bound, P·L + (N+C−P)·f, and that. An instance that the machine
// has kept from answering for 100 ms is one more part of the fleet, as the page says: each such line of the log is counted in P.
func (s *scene) judge(late []house.Late) (admitted, bound int64) {
	parts, slack := s.route.Parts, max(2, (s.route.Quota+49)/50)
	if s.route.Quota < 2*s.route.Instances {
		slack = 1
	}
	for _, l := range late {
		if s.hearable(l.Self, l.Time) && s.hearable(l.Member, l.Time) {
			s.late++
		}
	}
	for _, d := range s.droppers {
		all := s.n() - d.starts
		p := min(all, parts+s.late)
		got, most := d.Gained().Admitted, p*s.route.Quota+(all-p)*slack
		if bound == 0 || got-most > admitted-bound {
			admitted, bound = got, most
		}
	}
	return admitted, bound
}

func (s *scene) hearable(address string, at time.Time) bool {
	since, silent := s.silent[address]
	return !silent || at.Before(since)
}
