// SPDX-License-Identifier: Apache-2.0

package world

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/proof/lab/court"
)

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
