// SPDX-License-Identifier: Apache-2.0

package world

import (
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/lab/instance"
	"github.com/tallystick/tallystick/proof/lab/judge"
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
	life       func() int64                  // of tokens, for rotations
	redis      []string                      // further arguments of the server
	cycles     int64                         // how many there are, in place of a length
	slack      int64                         // added to every bound
}

// A world is everything that runs.
type world struct {
	findings
	set       settings
	clocks    *clocks
	short     *ring // of the policies whose tokens live an hour
	long      *ring // of those whose tokens live for two of the exact routes' windows
	life      map[bool]func() int64
	quotas    map[string]*judge.Quotas
	workFirst *judge.Quotas // what workFirst says, which changes as a quota does
	house     *house.Cluster
	redis     *house.Redis
	book      *book
	outage    judge.Outage // of Redis
	away      judge.Outage // an instance is not there
	client    *http.Client

	operating     sync.Mutex // of those who restart instances or change what they are configured by
	configuration int
	where         [instances]instance.Where
	hosts         atomic.Uint32
	flooding      atomic.Bool
	restarting    atomic.Bool
	hold          sync.RWMutex // of those who go on through all rounds
	touched       atomic.Bool  // some clock was wrong by far, two windows ago or less

	mu   sync.Mutex
	errs []error
	idle []func() // closes connections that nobody uses
}

// rest closes the connections that nobody uses.
func (w *world) rest() {
	w.client.CloseIdleConnections()
	for _, f := range w.idle {
		f()
	}
}

func (w *world) phase() *phase {
	if w.flooding.Load() {
		return &w.flood
	}
	return &w.quiet
}

// fail notes that the lab could not do what it meant to: then no verdict counts.
func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && len(w.errs) < 3 {
		w.errs = append(w.errs, err)
	}
}

// patience is how long something may take that must come, on a machine that is busy.
const patience = 2 * time.Minute

// at is where an instance listens, or the balancer.
func (w *world) at(to int) string {
	if to == fleet.Balancer {
		if w.house.Proxy != nil {
			return "http://" + w.house.Proxy.Plain.String()
		}
		to = rand.IntN(instances)
	}
	return "http://" + w.where[to%instances].Front.String()
}

// host returns an address that nobody has had.
func (w *world) host() string {
	n := w.hosts.Add(1)
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}).String()
}

// dial connects to the first instance.
func (w *world) dial() (net.Conn, error) {
	return net.Dial("tcp", w.where[0].Front.String())
}
