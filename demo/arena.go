// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/players"
)

// A plan holds the choices of a visitor of the home page for an attack.
type plan struct {
	Instances int
	Quota     int64 // of each window
	Work      bool  // one attacker works, and buys tallies
	Peers     bool  // the instances hear each other

	memoryless bool // the instances remember nothing; for the test that shows that the plot can fail
}

// Bounds of a plan.
const (
	mostAttacked = 10 // instances
	leastQuota   = 3  // of an attack: with fewer a visitor has to wait for most of two windows
	mostQuota    = 100
	purchases    = 3 // tallies that the attacker buys which works
)

// check reports what is wrong with a plan.
func (p plan) check() error {
	switch {
	case p.Instances < 1 || p.Instances > mostAttacked:
		return fmt.Errorf("instances must be from 1 to %d", mostAttacked)
	case p.Quota < leastQuota || p.Quota > mostQuota:
		return fmt.Errorf("limit must be from %d to %d", leastQuota, mostQuota)
	}
	return nil
}

// The clock of an arena is ten times as fast as ours, so that a window of a minute passes in six seconds.
const (
	attackWindow = time.Minute
	faster       = 10
	frame        = 100 * time.Millisecond // of our time: a step of the arena
	windowFrames = int(attackWindow / (faster * frame))
	attackFrames = int(time.Minute / frame) // how long an attack takes
	shownFrames  = 3 * windowFrames         // that the plot shows
)

// An arena is real middleware of several instances, honest visitors, and attackers. It moves by steps, one client
// after the other, and reads no clock. So the same plan gives the same picture, unless instances hear each other.
type arena struct {
	plan
	fleet   *fleet.Moved
	frame   int     // how many have passed
	boxes   []boxed // the instances
	peers   *network
	clients []*contestant
	trouble error // an attacker could not do what it meant to
}

// A boxed instance counts what it has answered.
type boxed struct{ Admitted, Refused int }

// A contestant is a client, and what it got.
type contestant struct {
	Name     string
	Class    string // of its line
	Honest   bool
	Bound    int64
	alone    int64 // its bound where instances do not hear each other
	Formula  string
	Admitted int64 // in the window
	Refused  int64 // in all
	Most     int64 // admitted in one window
	window   int64
	line     []point
	step     func() // takes its turn
	end      func()
}

// newArena starts the instances of a plan. The caller closes it.
func newArena(p plan) (*arena, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	a := &arena{plan: p, boxes: make([]boxed, p.Instances)}
	// One policy of every instance. Proofs are cheap: the attack is about counts.
	a.fleet = fleet.New(0, middleware.Config{
		Policy: "arena", Limits: []middleware.Limit{{Quota: a.Quota, Window: attackWindow}},
		Challenge: &middleware.Challenge{Mode: middleware.WhenExhausted, Work: pow.MinWork, Path: "/tally/", NoWaitingRoom: true},
		Advanced:  middleware.Advanced{InsecureNoMemory: a.memoryless}, MaxClients: 1 << 10,
	})
	site := &a.fleet.Site
	site.Instances = int64(a.Instances)
	if p.Peers {
		var err error
		if a.peers, err = openNetwork(p.Instances, a.fleet.Now); err != nil {
			return nil, err
		}
	}
	for i := range p.Instances {
		if p.Peers {
			site.Peers = a.peers.groups[i]
		}
		a.fleet.Scale(i + 1)
	}
	// The curves are held to what the middleware says of this configuration, if it remembers.
	site.Advanced.InsecureNoMemory = false
	bounds, err := middleware.BoundsOf(*site)
	if err != nil {
		return nil, err
	}
	admits := map[string]int64{}
	for _, row := range bounds.Rows {
		first, _, _ := strings.Cut(row.Client, " ")
		admits[first] = row.Admitted
	}
	for i := range 3 {
		a.honest(fmt.Sprintf("192.0.2.%d:4711", i+1), i)
	}
	shared, bought, all, tally := admits["drops"], admits["drops"], "N·L", "N·L"
	alone := p.Quota * int64(p.Instances) // what instances admit that do not hear each other
	if p.Peers {
		others := int64(p.Instances) - 1
		bought, tally = p.Quota+others, "L + N − 1"
		all = fmt.Sprintf("L + (N−1)·%d", (shared-p.Quota)/max(1, others)) // of what the others may not have heard yet
	}
	a.attacker("keeps its token, asks on", admits["echoes"], p.Quota, "L", "198.51.100.1:4711", func(c *players.Attacker) { c.Echo(c.Next) })
	a.attacker("throws its token away", shared, alone, all, "198.51.100.2:4711", (*players.Attacker).Drop)
	a.attacker("replays its first token", shared, alone, all, "198.51.100.3:4711", (*players.Attacker).Replay)
	a.attacker("forks its token", shared, alone, all, "198.51.100.4:4711", (*players.Attacker).Fork)
	if p.Work {
		a.attacker(fmt.Sprintf("works for %d tallies", purchases), shared+purchases*bought, alone*(1+purchases), fmt.Sprintf("%s + %d·(%s)", all, purchases, tally),
			"198.51.100.5:4711", func(c *players.Attacker) { c.Farm(purchases, 1) })
	}
	return a, nil
}

// honest adds a visitor that keeps its token, and sends in even steps: as much as a sliding window admits of such steps,
// wherever they fall, and at most four fifths of the quota.
func (a *arena) honest(from string, i int) {
	every := attackWindow / time.Duration(min(a.Quota-2, a.Quota*4/5))
	due, shown, turn := fleet.Midnight.Add(time.Duration(i)*every/3), "", i
	c := &contestant{Name: fmt.Sprintf("honest visitor %d", i+1), Class: "honest", Honest: true, Bound: a.Quota, Formula: "L", end: func() {}}
	c.step = func() {
		for ; !due.After(a.fleet.Now()); due = due.Add(every) {
			got := a.ask(fleet.Request{To: turn % a.Instances, From: from, Tokens: []string{shown}})
			turn++
			shown = cmp.Or(got.Token(), shown)
			c.note(a.fleet.Now(), got.Admitted())
		}
	}
	a.clients = append(a.clients, c)
}

// attacker adds a client that does one thing again and again. Each of its requests is a turn.
func (a *arena) attacker(name string, bound, alone int64, formula, from string, play func(*players.Attacker)) {
	c := &contestant{Name: name, Class: fmt.Sprintf("a%d", len(a.clients)-3), Bound: bound, alone: alone, Formula: formula}
	next, stop := iter.Pull(func(yield func(struct{}) bool) {
		s := &seat{Moved: a.fleet, arena: a, contestant: c, yield: yield, playing: true}
		for client := (&players.Attacker{Fleet: s, From: []string{from}}); s.playing; {
			play(client)
		}
	})
	turns := 1 + int(bound)/40 // a step; the attack has 60 steps in a window
	c.step = func() {
		for range turns {
			next()
		}
	}
	c.end = stop
	a.clients = append(a.clients, c)
}

// A seat is the fleet as one attacker sees it. It waits for the attacker's turn before each request.
type seat struct {
	*fleet.Moved
	arena *arena
	*contestant
	yield   func(struct{}) bool
	playing bool
}

// Ask implements [fleet.Fleet].
func (s *seat) Ask(r fleet.Request) fleet.Answer {
	s.playing = s.playing && s.yield(struct{}{})
	if !s.playing {
		return fleet.Answer{}
	}
	got := s.arena.ask(r)
	if r.Path == "" {
		s.note(s.Now(), got.Admitted())
	}
	return got
}

// Fail implements [fleet.Fleet].
func (s *seat) Fail(err error) {
	if s.playing {
		s.arena.trouble = errors.Join(s.arena.trouble, fmt.Errorf("%s: %w", s.Name, err))
	}
}

// ask has an instance answer a request.
func (a *arena) ask(r fleet.Request) fleet.Answer {
	got := a.fleet.Ask(r)
	switch box := &a.boxes[r.To]; {
	case r.Path != "":
	case got.Admitted():
		box.Admitted++
	default:
		box.Refused++
	}
	return got
}

// note counts an answer, in the aligned window: the bounds are for one such window.
func (c *contestant) note(now time.Time, admitted bool) {
	c.roll(now)
	if !admitted {
		c.Refused++
		return
	}
	c.Admitted++
	c.Most = max(c.Most, c.Admitted)
}

// roll begins a new count where a window begins.
func (c *contestant) roll(now time.Time) {
	if window := now.UnixNano() / int64(attackWindow); window != c.window {
		c.window, c.Admitted = window, 0
	}
}

// advance moves the clock by a frame and gives each client its turns.
func (a *arena) advance() {
	a.frame++
	a.fleet.Advance(faster * frame)
	for _, c := range a.clients {
		c.roll(a.fleet.Now())
		c.step()
		c.draw(a.frame)
	}
	for _, c := range a.clients {
		if a.apart() && c.alone > a.Quota {
			c.Bound, c.Formula = c.alone, strings.TrimPrefix(fmt.Sprintf("%d·N·L", c.alone/a.Quota/int64(a.Instances)), "1·")
		}
	}
}

// apart reports whether instances that are to hear each other have not, as on a machine that stood still. Then the bounds
// without peers hold.
func (a *arena) apart() bool { return a.peers != nil && a.peers.late.Load() }

// A point says how much a client had been admitted in its window, from a frame on.
type point struct {
	frame    int
	admitted int64
}

// draw notes what the plot shows of a client, and forgets what has left it.
func (c *contestant) draw(frame int) {
	if n := len(c.line); n == 0 || c.line[n-1].admitted != c.Admitted {
		c.line = append(c.line, point{frame, c.Admitted})
	}
	for len(c.line) > 1 && c.line[1].frame <= frame-shownFrames {
		c.line = c.line[1:]
	}
}

// broken names the first client that got more than its bound, or was refused and is honest; "" if all is well.
func (a *arena) broken() string {
	for _, c := range a.clients {
		switch {
		case c.Most > c.Bound:
			return fmt.Sprintf("%s: %d admitted, at most %d", c.Name, c.Most, c.Bound)
		case c.Honest && c.Refused > 0:
			return fmt.Sprintf("%s: %d refused", c.Name, c.Refused)
		}
	}
	return ""
}

// close ends the attackers, and then the peers.
func (a *arena) close() {
	for _, c := range a.clients {
		c.end()
	}
	a.peers.close()
}
