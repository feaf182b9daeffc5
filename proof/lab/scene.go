// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/lab/instance"
	"github.com/tallystick/tallystick/proof/players"
)

// A scene is one row while it is played: an attacker and honest clients on one route.
type scene struct {
	ctx     context.Context
	row     string
	cluster *house.Cluster
	route   route
	oracle  *oracle
	scale   scale
	counter func()                 // ends that of an exact route
	front   func() *http.Transport // that a proxy in front of ours has

	block byte // the first bits of the addresses in it
	hosts atomic.Uint32

	mu        sync.Mutex
	errs      []error
	idle      []func() // closes connections that nobody uses
	attackers []*players.Attacker

	sent   atomic.Int64 // by attackers
	seen   atomic.Int64 // seconds that the clock has moved
	turn   sync.Mutex   // of those who move the clock, or need it to stand
	hold   sync.RWMutex // the clock stands for those that read-lock it
	starts atomic.Int64 // of instances in the window: C
}

// n is the number of instances, those that have started since the beginning too: N+C.
func (s *scene) n() int64 { return int64(len(s.cluster.Instances)) + s.starts.Load() }

// host returns an address of this machine that nobody has had in any scene.
func (s *scene) host() string {
	n := s.hosts.Add(1)
	return netip.AddrFrom4([4]byte{127, s.block, byte(n >> 8), byte(n)}).String()
}

// fail notes that the lab could not do what it meant to: then no verdict counts.
func (s *scene) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && len(s.errs) < 3 {
		s.errs = append(s.errs, fmt.Errorf("%s: %w", s.row, err))
	}
}

func (s *scene) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.errs...)
}

// rest closes the connections that nobody uses.
func (s *scene) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.idle {
		f()
	}
}

// dialer returns a transport whose connections come from an address of this machine.
func (s *scene) dialer(from string) *http.Transport {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	t := &http.Transport{
		DialContext:         d.DialContext,
		TLSClientConfig:     &tls.Config{RootCAs: s.cluster.Roots, ServerName: "127.0.0.1"},
		MaxIdleConnsPerHost: 8,
		DisableCompression:  true,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, t.CloseIdleConnections)
	return t
}

// A caller is a client of the route, or an attacker with many addresses.
type caller struct {
	*players.Attacker
	client *instance.Client
}

// caller returns one that the instances count by a name. Named by a proxy in front of ours it has any addresses.
func (s *scene) caller(name string, honest, named bool, from ...string) *caller {
	var mu sync.Mutex
	known := map[string]*http.Client{}
	c := &instance.Client{
		Ctx: s.ctx, Name: s.row + name, Policy: s.row, At: s.at, Size: func() int { return len(s.cluster.Instances) }, Named: named, Failed: s.fail,
		Via: func(from string) *http.Client {
			mu.Lock()
			defer mu.Unlock()
			if known[from] == nil {
				base := s.front
				if !named {
					base = func() *http.Transport { return s.dialer(from) }
				}
				known[from] = &http.Client{Transport: s.witness(base(), func() string { return from }, honest)}
			}
			return known[from]
		},
	}
	// It asks for some more than it may have, so that a bound that does not hold is exceeded, and not only reached.
	return &caller{client: c, Attacker: &players.Attacker{Fleet: c, From: from, Refusals: 3, Endless: 4*s.route.Quota + 40}}
}

// attacker returns one at some addresses, at a new one if there are none.
func (s *scene) attacker(from ...string) *caller {
	if from == nil {
		from = []string{s.host()}
	}
	return s.attacks(s.caller(instance.Attacker, false, false, from...))
}

func (s *scene) attacks(c *caller) *caller {
	c.client.Sent = &s.sent
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attackers = append(s.attackers, c.Attacker)
	return c
}

// honestName is how the name ends by which the instances count honest clients.
const honestName = "/honest"

// honest returns somebody of them at an address.
func (s *scene) honest(from string) *caller { return s.caller(honestName, true, false, from) }

func (s *scene) witness(base http.RoundTripper, address func() string, honest bool) *witness {
	return &witness{base, s.oracle, address, honest, "__Host-tallystick-" + s.row}
}

// at is where an instance listens, whose own address has leaked, and the site as all clients see it.
func (s *scene) at(to int) string {
	if to == fleet.Balancer {
		return "http://" + s.cluster.Proxy.Plain.String()
	}
	return "http://" + s.cluster.Instances[to%len(s.cluster.Instances)].Where.Front.String()
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

// levelOf returns how many tallies an identity can have bought for so much work on n instances,
// each of which it paid with the same part: the most that can be.
func levelOf(n, crowd, work, seen int64) int64 {
	c := float64(n * crowd)
	return int64(math.Floor(float64(n*leak*seen)/3600 + c*math.Log2(1+15./8*float64(work)/(c*leastWork))))
}

// worth returns what an own tally may use on all instances: its quota on each.
func (s *scene) worth() int64 { return s.n() * s.route.Quota }

// own is what may be bought: F·(N+C)·L.
func (s *scene) own() int64 {
	got := s.gained()
	return s.worth() * min(levelOf(s.n(), s.route.Crowd, got.Spent, s.seen.Load()), got.Bought)
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
	s.fail(s.cluster.Advance(seconds))
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
