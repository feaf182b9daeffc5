// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/proof/lab/court"
)

// settings are what a run is like. The last four are for tests, which break one thing each.
type settings struct {
	length      time.Duration
	round       time.Duration // at least, so that the machine is not the only pace
	reconfigure time.Duration
	rotate      time.Duration
	program     string // that the instances are
	dir         string

	tamper func(*world, *http.Request) *http.Response // may change a request on its way, or answer it
	hasty  bool                                       // secrets are dropped while their tokens live
	cycles int64                                      // how many there are, in place of a length
	slack  int64                                      // added to every bound
}

// A world is everything that runs.
type world struct {
	findings
	*court.Stage
	set    settings
	exact  string // the window of the exact route, which stays the same
	ring   *ring
	life   int64 // of tokens, in seconds; no client keeps a token of the exact route until that ends
	quotas map[string]*court.Quotas

	operating     sync.Mutex // of what restarts instances or changes what they are configured by
	configuration int
	flooding      atomic.Bool
	restarting    atomic.Bool
	standing      sync.RWMutex // read-locked by clients that go on through all rounds
}

// newWorld returns a world without servers.
func newWorld(set settings) *world {
	w := &world{set: set, exact: court.ExactWindow(time.Now()).String(), quotas: map[string]*court.Quotas{}}
	w.ring = newRing(&w.Led, &w.Dropped)
	terms := map[string]*court.Terms{}
	for policy := range quotas {
		w.quotas[policy] = court.NewQuotas(quotaOf(policy, 0))
		terms[policy] = termsOf(policy, w.quotas[policy])
	}
	w.oracle = court.NewOracle(terms)
	w.oracle.Strict, w.oracle.Slack = true, set.slack
	w.Stage = &court.Stage{Oracle: w.oracle, Ctx: context.Background(), Net: [2]byte{10}}
	if set.tamper != nil {
		w.Tamper = func(r *http.Request) *http.Response { return set.tamper(w, r) }
	}
	w.Lost = func(who court.Who, standing int64, why error) {
		if who.Honest && w.Away.Stood(standing) {
			w.NoAnswer.Note("%s on /%s: %v", who.Name, who.Policy, why)
		}
	}
	return w
}

func (w *world) phase() *phase {
	if w.flooding.Load() {
		return &w.flood
	}
	return &w.quiet
}

// patience is how long something may take that must come, on a machine that is busy.
const patience = 2 * time.Minute
