// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/players"
	"github.com/tallystick/tallystick/proof/truth"
)

// A scene is one row while it is played: an attacker and honest clients on one route, and the networks of these.
type scene struct {
	*Oracle
	Ctx   context.Context
	House *house.Cluster
	Net   [2]byte // the first bytes of the addresses of clients
	row   string
	scale scale

	where []house.Where // in which no instance changes when it starts anew
	hosts atomic.Uint32
	named *http.Transport

	mu        sync.Mutex
	errs      []error
	idle      []func() // closes connections without a request
	attackers []*players.Attacker
	silent    map[string]time.Time // addresses of peers, since when the lab keeps others from hearing them
	there     map[string]bool      // addresses of peers, when the round began
	rounds    int64                // of peers that hear each other, and what the dropper got that came closest to its bound
	late      int64                // instances that were not heard for another reason
	admitted  int64
	bound     int64

	sent  atomic.Int64 // by clients that are not honest
	turn  sync.Mutex   // of a client that moves the clock, or needs it to stand
	began int64        // by the clock
	anew  int64        // instances before: C counts those that begin anew from then on
	on    func() bool  // a row that goes on meanwhile does: in a soak, until all others have been played
}

// all are the instances, those that have started since the beginning too.
func (s *scene) all() truth.Instances {
	return truth.Instances{N: int64(len(s.House.Instances)), C: s.House.Anew.Load() - s.anew}
}

// n is their number: N+C.
func (s *scene) n() int64 { return s.all().Drops(1) }

// Host returns an address that no other call returns.
func (s *scene) Host() string {
	n := s.hosts.Add(1)
	return netip.AddrFrom4([4]byte{s.Net[0], s.Net[1] + byte(n>>16), byte(n >> 8), byte(n)}).String()
}

// Fail notes that the lab could not do what it meant to: then no verdict counts.
func (s *scene) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && len(s.errs) < 3 {
		s.errs = append(s.errs, err)
	}
}

// lost notes a request without an answer, for which no instance that was away is the reason.
func (s *scene) lost(standing int64, why error) {
	if s.House.Away.Stood(standing) {
		s.Fail(why)
	}
}

// Failed is why no verdict counts.
func (s *scene) Failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.errs...)
}

// Rest closes the connections without a request.
func (s *scene) Rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.idle {
		f()
	}
}

// Dialer returns a transport whose connections come from an address of this machine.
func (s *scene) Dialer(from string) *http.Transport {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	t := &http.Transport{
		DialContext:         d.DialContext,
		TLSClientConfig:     &tls.Config{RootCAs: s.House.Roots, ServerName: "127.0.0.1"},
		MaxIdleConnsPerHost: 128,
		DisableCompression:  true,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, t.CloseIdleConnections)
	return t
}

// At is the URL of an instance, or of the site as all clients see it.
func (s *scene) At(to int) string {
	if to == fleet.Balancer {
		return "http://" + s.House.Proxy.Plain
	}
	return "http://" + s.where[to%len(s.where)].Front.String()
}

// gained is what all attackers have got.
func (s *scene) gained() (all players.Gain) {
	for _, a := range s.attackers {
		g := a.Gained()
		all.Spent += g.Spent
		all.Solved += g.Solved
		all.Bought += g.Bought
	}
	return all
}

// levelOf returns the most tallies that an identity can have bought for some work on n instances:
// it paid the same part to each.
func levelOf(n, crowd, work, seen int64) int64 {
	return truth.Tariff{Work: leastWork, Crowd: n * crowd, Leak: n * leak}.Most(work, seen)
}

// seen is by how many seconds the clock has moved.
func (s *scene) seen() int64 { return s.House.Clock.Load() - s.began }

// sold is how many tallies may be bought: F.
func (s *scene) sold() int64 {
	got := s.gained()
	return min(levelOf(s.n(), s.route.Crowd, got.Spent, s.seen()), got.Bought)
}

// wait moves the clock of all instances.
func (s *scene) wait(seconds int64) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.Fail(s.House.Advance(seconds))
}

// still does something while the clock stands: a challenge that an honest client is working on must not end.
func (s *scene) still(f func()) {
	s.House.Still.RLock()
	defer s.House.Still.RUnlock()
	f()
}

// together runs all, and waits for them.
func together(fs ...func()) {
	kit.Together(len(fs), func(i int) { fs[i]() })
}

type scale struct {
	instances int
	quota     int64
	work      int64 // of a farm on each instance, in prices of the first tally
	crowd     int64

	rounds   int             // of deploys and of kills
	troubles []time.Duration // that peers have
	late     time.Duration   // their list, and what DNS says of them
	pause    time.Duration   // of clients that come again and again
}

var (
	short = scale{instances: 3, quota: 20, work: 12, crowd: 3, rounds: 2, troubles: []time.Duration{250 * time.Millisecond}, late: 250 * time.Millisecond, pause: 20 * time.Millisecond}
	whole = scale{instances: 5, quota: 60, work: 60, crowd: 8, rounds: 2, troubles: []time.Duration{3 * time.Second}, late: 3 * time.Second, pause: 50 * time.Millisecond}
	long  = scale{instances: 3, quota: 100, work: 60, crowd: 8, rounds: 100, troubles: []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second}, late: 30 * time.Second, pause: 250 * time.Millisecond}
)
