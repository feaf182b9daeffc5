// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/house"
)

// Instances that hear each other, while something happens to them. Their clocks stand as all do; what they tell each other goes
// by the time of day.

// A dropper is a client that drops its tokens.
type dropper struct {
	*Client
	starts int64  // of instances before it came
	begin  func() // lets it ask
}

// hears plays rounds of some trouble. A round begins when all instances hear each other. It has a dropper for each step, which asks all
// instances at once, again and again until that step is done, and once more when all are. The round is judged by its
// droppers. One of them has met all starts of the round.
func hears(times func(scale) int, steps func(s *scene, round int) []func(*dropper)) func(*scene) {
	return func(s *scene) {
		for round := range times(s.scale) {
			if !s.settled() {
				return
			}
			since := time.Now()
			var droppers []*dropper
			for _, step := range steps(s, round) {
				begun := make(chan struct{})
				d := &dropper{s.attacker(), s.all().C, sync.OnceFunc(func() { close(begun) })}
				droppers = append(droppers, d)
				var done atomic.Bool
				together(func() {
					defer d.begin()
					defer done.Store(true)
					step(d)
				}, func() {
					for <-begun; !done.Load() && s.Ctx.Err() == nil; s.pause(s.scale.pause) {
						d.Everywhere(1, fleet.Request{})
					}
				})
			}
			for _, d := range droppers {
				d.Everywhere(1, fleet.Request{})
			}
			s.judge(droppers, since)
			s.Rest()
		}
	}
}

func once(scale) int      { return 1 }
func each(sc scale) int   { return len(sc.troubles) }
func rounds(sc scale) int { return sc.rounds }

func (s *scene) pause(d time.Duration) {
	select {
	case <-s.Ctx.Done():
	case <-time.After(d):
	}
}

// settled waits until all instances hear each other: a minute, where caches keep answers for half of one.
func (s *scene) settled() bool {
	clear(s.silent)
	clear(s.there)
	for _, p := range s.House.Instances {
		s.there[p.Where.Peers.String()] = true
	}
	for began := time.Now(); s.Ctx.Err() == nil; s.pause(10 * time.Millisecond) {
		all, err := s.House.Hear()
		if err == nil && !all && time.Since(began) > time.Minute {
			err = errors.New("instances do not hear each other within a minute")
		}
		if s.Fail(err); all || err != nil {
			return all
		}
	}
	return false
}

func quiet(*scene, int) []func(*dropper) { return []func(*dropper){func(*dropper) {}} }

// restarts replaces some instances, one after the other, each when half of a limit is used up.
func restarts(s *scene, so int, restart func(*house.Cluster, int, func(*house.Process) error) error, end func(*house.Process) error) (steps []func(*dropper)) {
	for i := range so {
		steps = append(steps, func(d *dropper) {
			for d.begin(); d.Gained().Admitted < s.route.Quota/2 && s.Ctx.Err() == nil; {
				s.pause(time.Millisecond)
			}
			s.Fail(restart(s.House, i, func(p *house.Process) error {
				s.troubled(p)
				return end(p)
			}))
		})
	}
	return steps
}

func deploys(s *scene, _ int) []func(*dropper) {
	return restarts(s, len(s.House.Instances), (*house.Cluster).Restart, (*house.Process).End)
}

func kills(s *scene, _ int) []func(*dropper) {
	return restarts(s, 2, (*house.Cluster).Restart, func(p *house.Process) error {
		p.Kill()
		return nil
	})
}

// dns deploys where nodes keep the answers of DNS. In every other round the pods that are not ready are published too.
func dns(restart func(*house.Cluster, int, func(*house.Process) error) error) func(s *scene, round int) []func(*dropper) {
	return func(s *scene, round int) []func(*dropper) {
		s.House.Names.Keep(s.scale.late, round%2 == 0)
		return append(restarts(s, len(s.House.Instances), restart, (*house.Process).End), func(d *dropper) {
			d.begin()
			s.pause(s.scale.late)
			s.House.Names.Keep(0, false)
		})
	}
}

// lateList deploys while the list stays what it was, and stays that for a while.
func lateList(s *scene, _ int) []func(*dropper) {
	return append([]func(*dropper){func(*dropper) { s.House.Names.Keep(time.Hour, false) }},
		append(restarts(s, 2, (*house.Cluster).Restart, (*house.Process).End), func(d *dropper) {
			d.begin()
			s.pause(s.scale.late)
			s.House.Names.Keep(0, false)
		})...)
}

// stopped has an instance stand still, and go on.
func stopped(s *scene, round int) []func(*dropper) {
	return []func(*dropper){func(d *dropper) {
		p := s.House.Instances[round%len(s.House.Instances)]
		s.troubled(p)
		d.begin()
		s.Fail(p.Freeze())
		s.pause(s.scale.troubles[round])
		s.Fail(p.Thaw())
	}}
}

// cut has two parts of the fleet that do not hear each other.
func cut(s *scene, round int) []func(*dropper) {
	n := len(s.House.Instances)
	return []func(*dropper){func(d *dropper) {
		d.begin()
		for _, p := range s.House.Instances[:n/2] {
			s.troubled(p)
		}
		s.Fail(s.House.Cut(n / 2))
		s.pause(s.scale.troubles[round])
		s.Fail(s.House.Cut(0))
	}}
}

// troubled notes that an instance is not heard from now on.
func (s *scene) troubled(p *house.Process) {
	if at := p.Where.Peers.String(); s.hearable(at, time.Now()) {
		s.silent[at] = time.Now()
	}
}

// judge keeps what the dropper got that came closest to its bound, P·L + (N+C−P)·f, and that.
func (s *scene) judge(droppers []*dropper, since time.Time) {
	lines, err := s.House.Lines()
	s.Fail(err)
	parts, slack := s.route.Parts, max(2, (s.route.Quota+49)/50)
	if s.route.Quota < 2*s.route.Instances {
		slack = 1
	}
	apart := s.apart(lines, since)
	s.late += apart
	for _, d := range droppers {
		all := s.n() - d.starts
		p := min(all, parts+apart)
		got, most := d.Gained().Admitted, p*s.route.Quota+(all-p)*slack
		if s.bound == 0 || got-most > s.admitted-s.bound {
			s.admitted, s.bound = got, most
		}
	}
	s.rounds++
}

// apart is how many parts of the fleet there were since a moment that the lab has not made. An instance that the machine has kept from
// answering for 100 ms, or that has started without records, is one, as the page says. Where some instances complain of others, the fewer
// of the two explain it. A log says so once in a minute: an instance that has complained of another within it may do so again.
func (s *scene) apart(lines []house.Line, since time.Time) int64 {
	alone, complain, late := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, l := range lines {
		switch {
		case l.Time.Before(since) && (l.Time.Before(since.Add(-time.Minute)) || !s.there[l.Self] || !s.there[l.Member]):
		case !s.hearable(l.Self, l.Time) || !s.hearable(l.Member, l.Time):
		case l.Code == "peers-alone":
			alone[l.Self] = true
		case l.Code == "peers-late":
			complain[l.Self], late[l.Member] = true, true
		}
	}
	return int64(len(alone) + min(len(complain), len(late)))
}

func (s *scene) hearable(address string, at time.Time) bool {
	since, silent := s.silent[address]
	return !silent || at.Before(since)
}
