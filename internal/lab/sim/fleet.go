// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// Seed is that of the printed tables.
const Seed = 1

// Options are what all tables have in common.
type Options struct {
	// Seed is where chance begins.
	Seed uint64

	// Instances returns what Config.Instances says where n serve: nil is n, and a mistaken
	// operator is one whose number differs. With 1 a bought tally is whole on all of them.
	Instances func(n int) int64
}

// expected is what Config.Instances says where n serve.
func (o *Options) expected(n int) int64 {
	if o.Instances == nil {
		return int64(n)
	}
	return o.Instances(n)
}

// expecting has Config.Instances say so many, however many serve.
func (o Options) expecting(instances int64) Options {
	o.Instances = func(int) int64 { return instances }
	return o
}

// random returns chance for one row: rows do not hang together, and can be made in any order.
func (o *Options) random(row string) *rand.Rand {
	second := uint64(14695981039346656037) // FNV-1a
	for i := range len(row) {
		second = (second ^ uint64(row[i])) * 1099511628211
	}
	return rand.New(rand.NewPCG(o.Seed, second))
}

// unit is W of the simulation: the price of a first tally, in hashes. All prices are whole
// multiples of four, which is what a puzzle can ask for, and a proof takes microseconds.
const unit = 32

// crowd is the default of Challenge.Crowd.
const crowd = 8

type site struct {
	limits  []middleware.Limit
	sells   bool // there is a challenge
	mode    middleware.Mode
	room    bool // the waiting room is open
	bulk    bool // a request may stand for many
	clients int  // of the memory; 0: 4,096
	exact   bool // a counter counts, and n share its quota in an outage
	ceiling bool // each instance admits one part of the quota
	planned int  // how many instances the operator expects, if that is not how many there are at first
}

// A fleet is the instances of a site.
type fleet struct {
	site
	o          Options
	r          *rand.Rand
	size       int // at first
	began, now time.Time
	all        []*instance
	next       int

	counter *outage
}

// newFleet starts n instances.
func newFleet(o Options, name string, n int, s site) *fleet {
	f := &fleet{site: s, size: n, o: o, r: o.random(name), began: opening, now: opening}
	for range n {
		f.all = append(f.all, nil)
	}
	if s.exact {
		f.counter = &outage{Counter: exact.NewMemory(16, func() time.Time { return f.now })}
	}
	f.restart()
	return f
}

// restart starts all instances anew. What they knew is gone.
func (f *fleet) restart() {
	for i := range f.all {
		f.all[i] = f.start()
	}
}

// instances is what its Config.Instances says, except on exact routes.
func (f *fleet) instances() int64 { return f.o.expected(cmp.Or(f.planned, f.size)) }

// start starts one more.
func (f *fleet) start() *instance {
	cfg := middleware.Config{
		Policy:         "api",
		Limits:         f.limits,
		Secrets:        [][]byte{[]byte("a secret that the simulation shares with nobody")},
		TokenTransport: middleware.HeaderAndCookie,
		MaxClients:     f.clients,
		Logger:         silent,
		Now:            func() time.Time { return f.now },
	}
	if cfg.MaxClients == 0 {
		cfg.MaxClients = 4096
	}
	cfg.Instances = f.instances()
	if f.exact {
		cfg.Instances = int64(f.size)
		cfg.Exact = &middleware.Exact{Counter: f.counter, Outage: middleware.FailOpen, Deadline: 10 * time.Second}
	}
	if f.ceiling {
		cfg.UnfairCeiling, cfg.Instances = true, int64(cmp.Or(f.planned, f.size))
	}
	if f.bulk {
		cfg.Cost = costOf
	}
	if f.sells {
		cfg.Challenge = &middleware.Challenge{Mode: f.mode, Work: unit, Path: "/tally/"}
		cfg.Challenge.NoWaitingRoom = !f.room && f.mode != middleware.EveryRequest
	}
	return newInstance(cfg)
}

// unlessByChance plays, and once more if more was admitted than may be. A process takes the tally of
// another one for its own with a chance of 2⁻²⁴, by secrets that no seed decides: that would be
// one run of all tables in ten with another number. A fault does the same the second time.
func unlessByChance[T any](play func() T, over func(T) bool) T {
	got := play()
	if over(got) {
		return play()
	}
	return got
}

// turn returns the next instance, one after the other.
func (f *fleet) turn() *instance {
	i := f.all[f.next%len(f.all)]
	f.next++
	return i
}

// any returns an instance by chance.
func (f *fleet) any() *instance { return f.all[f.r.IntN(len(f.all))] }

// perMinute is the limit of most tables: so many requests in each minute.
func perMinute(quota int64) []middleware.Limit {
	return []middleware.Limit{{Quota: quota, Window: time.Minute}}
}

// v4 names the n-th IPv4 client, and its connection.
func v4(n int) string { return fmt.Sprintf("198.%d.%d.%d:4711", 18+n>>16, n>>8&255, n&255) }

// v6 names the n-th /64 of a /48, one of each /56 after the other.
func v6(n int) string { return fmt.Sprintf("[2001:db8:0:%x::1]:4711", n&255<<8|n>>8&255) }
