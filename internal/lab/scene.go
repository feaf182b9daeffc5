// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/tallystick/tallystick/internal/lab/instance"
)

// A scene is one row while it is played: an attacker and honest crowds on one route.
type scene struct {
	row     string
	cluster *cluster
	site    instance.Config
	route   instance.Route
	oracle  *oracle
	scale   scale

	block byte // the first bits of the addresses in it
	hosts atomic.Uint32

	counter *counter               // of an exact route
	front   func() *http.Transport // that a proxy in front of ours has

	mu    sync.Mutex
	errs  []error
	clean []func() // when the row is over

	sent   atomic.Int64 // by attackers
	work   atomic.Int64 // expected hashes of the proofs that attackers have solved
	bought atomic.Int64 // tallies of attackers, each counted once: F
	solved atomic.Int64 // proofs of attackers: S
	seen   atomic.Int64 // seconds that the clock has moved
	turn   sync.Mutex   // of those who move the clock, or need it to stand
	hold   sync.RWMutex // the clock stands for those that read-lock it
	starts atomic.Int64 // of instances in the window: C
	curve  []point
}

// A point is how much an attacker had been let in for how much work.
type point struct{ work, admitted float64 }

// n is the number of instances, those that have started since the beginning too: N+C.
func (s *scene) n() int64 { return int64(len(s.cluster.instances)) + s.starts.Load() }

// host returns an address of this machine that nobody has had in any scene.
func (s *scene) host() netip.Addr {
	n := s.hosts.Add(1)
	return netip.AddrFrom4([4]byte{127, s.block, byte(n >> 8), byte(n)})
}

// serial is a number of this scene, for addresses that are not of this machine.
func (s *scene) serial() byte { return s.block }

// fail notes that the lab could not do what it meant to: then no verdict counts.
func (s *scene) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.errs) < 3 {
		s.errs = append(s.errs, fmt.Errorf("%s: %w", s.row, err))
	}
}

func (s *scene) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.errs...)
}

func (s *scene) later(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clean = append(s.clean, f)
}

func (s *scene) over() {
	for _, f := range s.clean {
		f()
	}
}

// wait moves the clock of all instances.
func (s *scene) wait(seconds int64) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.move(seconds)
}

// move is wait for those whose turn it is. Challenges that honest clients are working on
// must not end by it.
func (s *scene) move(seconds int64) {
	s.hold.Lock()
	defer s.hold.Unlock()
	if err := s.cluster.advance(seconds); err != nil {
		s.fail(err)
	}
	s.seen.Add(seconds)
}

// still does something while the clock stands.
func (s *scene) still(f func()) {
	s.hold.RLock()
	defer s.hold.RUnlock()
	f()
}

// together runs all, and waits for them.
func together(fs ...func()) {
	var wg sync.WaitGroup
	for _, f := range fs {
		wg.Go(f)
	}
	wg.Wait()
}

// times runs f so often at once, and waits.
func times(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}
