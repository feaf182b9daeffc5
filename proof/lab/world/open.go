// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/proof/lab/court"
	"github.com/tallystick/tallystick/proof/lab/house"
)

// openWorld starts all servers.
func openWorld(ctx context.Context, set settings) (_ *world, err error) {
	w := newWorld(set)
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if err = w.write(); err != nil {
		return nil, err
	}
	plan := house.Plan{Dir: set.dir, Program: set.program, Size: instances, TLS: true, Spread: true, Redis: set.redis, Site: house.Config{
		Now: begin(w.exact), Policies: []string{filepath.Join(set.dir, "policies.json"), filepath.Join(set.dir, "exact.json")},
	}}
	if set.wrap != nil {
		plan.Wrap = func(h http.Handler) http.Handler { return set.wrap(w, h) }
	}
	// The instances are ended by the world, not with the time of their clients.
	servers, err := house.Start(context.WithoutCancel(ctx), plan)
	if err != nil {
		return nil, err
	}
	w.Open(servers)
	state, err := servers.Instances[0].State()
	for policy, life := range state.Life {
		w.life[exact(policy)] = max(life, w.life[exact(policy)])
	}
	return w, err
}

// newWorld returns a world without servers.
func newWorld(set settings) *world {
	w := &world{
		set: set, exact: int64(court.ExactWindow(time.Now()) / time.Second), short: newRing(), long: newRing(),
		quotas: map[string]*court.Quotas{}, findings: findings{exactly: map[string]*court.Exact{}}, workFirst: court.NewQuotas(set.workFirst(0)), life: map[bool]int64{},
	}
	terms := map[string]*court.Terms{}
	for policy := range quotas {
		w.quotas[policy] = court.NewQuotas(quotaOf(policy, 0))
		terms[policy] = termsOf(policy, w.quotas[policy])
		if x := terms[policy].Exact; x != nil {
			w.exactly[policy] = x
		}
	}
	w.oracle = court.NewOracle(terms)
	w.oracle.Strict, w.oracle.Slack = true, set.slack
	w.Stage = &court.Stage{Oracle: w.oracle, Ctx: context.Background(), Net: [2]byte{10}}
	w.Lost = func(who court.Who, standing int64, why error) {
		if who.Honest && w.Away.Stood(standing) {
			w.NoAnswer.Note("%s on /%s: %v", who.Name, who.Policy, why)
		}
	}
	return w
}

// close ends everything that openWorld has started.
func (w *world) close() {
	if w.House != nil {
		w.Fail(w.House.Stop())
	}
	w.Rest()
}

// settings are what a run is like. The last seven are for tests, which break one thing each.
type settings struct {
	length      time.Duration
	round       time.Duration // at least, so that the machine is not the only pace
	reconfigure time.Duration
	rotate      time.Duration
	patience    time.Duration // with goroutines that should end
	program     string        // that the instances are, as processes; "": they are in this one
	dir         string

	wrap       func(*world, http.Handler) http.Handler
	configured func(policy string, p object) // may change what is configured
	byLoad     bool                          // work never comes first on /busy while it is calm
	hasty      bool                          // secrets are dropped while their tokens live
	redis      []string                      // further arguments of the server
	cycles     int64                         // how many there are, in place of a length
	slack      int64                         // added to every bound
}

// A world is everything that runs.
type world struct {
	findings
	*court.Stage
	set       settings
	exact     int64          // seconds: the window of the exact routes
	short     *ring          // of the policies whose tokens live an hour
	long      *ring          // of those whose tokens live for two of the exact routes' windows
	life      map[bool]int64 // of tokens, in seconds: on exact routes, and on others
	quotas    map[string]*court.Quotas
	workFirst *court.Quotas // what workFirst says, which changes as a quota does

	operating     sync.Mutex // of what restarts instances or changes what they are configured by
	configuration int
	flooding      atomic.Bool
	restarting    atomic.Bool
	standing      sync.RWMutex // read-locked by clients that go on through all rounds
}

func (w *world) phase() *phase {
	if w.flooding.Load() {
		return &w.flood
	}
	return &w.quiet
}

// patience is how long something may take that must come, on a machine that is busy.
const patience = 2 * time.Minute
