// SPDX-License-Identifier: Apache-2.0

package court

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/house"
)

// A Stage is the servers, and the networks of their clients.
type Stage struct {
	*Oracle
	Ctx   context.Context
	House *house.Cluster
	Net   [2]byte                                  // the first bytes of the addresses of clients
	Lost  func(who Who, standing int64, why error) // is told of a request without an answer

	where []house.Where // in which no instance changes when it starts anew
	hosts atomic.Uint32
	named *http.Transport

	mu   sync.Mutex
	errs []error
	idle []func() // closes connections without a request
}

// Open has clients come to some servers, which know none of their addresses: for the pass-th time.
func (s *Stage) Open(servers *house.Cluster, pass int) {
	s.House = servers
	s.hosts.Store(uint32(pass) << 9)
	for _, p := range servers.Instances {
		s.where = append(s.where, p.Where)
	}
	s.named = s.Dialer("127.0.0.1")
}

// Host returns an address that no other call returns.
func (s *Stage) Host() string {
	n := s.hosts.Add(1)
	return netip.AddrFrom4([4]byte{s.Net[0], s.Net[1] + byte(n>>16), byte(n >> 8), byte(n)}).String()
}

// Fail notes that the lab could not do what it meant to: then no verdict counts.
func (s *Stage) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && len(s.errs) < 3 {
		s.errs = append(s.errs, err)
	}
}

// Failed is why no verdict counts.
func (s *Stage) Failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.errs...)
}

// Rest closes the connections without a request.
func (s *Stage) Rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.idle {
		f()
	}
}

// Dialer returns a transport whose connections come from an address of this machine.
func (s *Stage) Dialer(from string) *http.Transport {
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

// Where is where an instance listens.
func (s *Stage) Where(to int) house.Where { return s.where[to%len(s.where)] }

// At is the URL of an instance, or of the site as all clients see it.
func (s *Stage) At(to int) string {
	if to == fleet.Balancer {
		return "http://" + s.House.Proxy.Plain
	}
	return "http://" + s.Where(to).Front.String()
}
