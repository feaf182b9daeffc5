// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/lab/instance"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
)

// A caller sends requests from one address, and keeps nothing of the answers.
type caller struct {
	scene   *scene
	name    string // by which the instances count it
	address netip.Addr
	client  *http.Client
	attacks bool
	policy  string   // whose route it is on
	fields  []string // more of each request, names and values in turn
	slow    bool     // it reads answers so
}

type answer struct {
	status   int
	header   http.Header
	trailer  http.Header
	size     int64
	decision instance.Decision
}

func (a answer) admitted() bool { return a.status == http.StatusNoContent }
func (a answer) token() string  { return a.header.Get(middleware.TokenHeader) }

// dialer returns a transport whose connections come from an address of this machine.
func (s *scene) dialer(from netip.Addr) *http.Transport {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}}
	t := &http.Transport{
		DialContext:         d.DialContext,
		TLSClientConfig:     &tls.Config{RootCAs: s.cluster.proxy.roots, ServerName: "127.0.0.1"},
		MaxIdleConnsPerHost: 8,
		DisableCompression:  true,
	}
	s.later(t.CloseIdleConnections)
	return t
}

// attacker returns a caller from an address, a new one if it is the zero Addr.
func (s *scene) attacker(from netip.Addr) *caller {
	if !from.IsValid() {
		from = s.host()
	}
	return s.caller(s.row+instance.Attacker, s.dialer(from), from, false)
}

// behind returns an attacker that a proxy in front of ours names, as any address.
func (s *scene) behind(address netip.Addr) *caller { return s.named(s.row+instance.Attacker, address) }

// stranger is the same of a client that only takes room, and is not counted.
func (s *scene) stranger(address netip.Addr) *caller { return s.named(s.row+"/stranger", address) }

func (s *scene) named(name string, address netip.Addr) *caller {
	c := s.caller(name, s.front(), address, false)
	c.fields = []string{"X-Forwarded-For", address.String()}
	return c
}

func (s *scene) caller(name string, base http.RoundTripper, address netip.Addr, honest bool) *caller {
	said := address.String()
	t := s.witness(base, func() string { return said }, honest)
	return &caller{scene: s, name: name, address: address, client: &http.Client{Transport: t}, attacks: !honest, policy: s.route.Policy}
}

func (s *scene) witness(base http.RoundTripper, address func() string, honest bool) *witness {
	return &witness{base, s.oracle, address, honest, "__Host-tallystick-" + s.route.Policy}
}

// through is the site as all clients see it.
func (s *scene) through() string { return "http://" + s.cluster.proxy.plain.String() }

// around is the i-th instance, whose own address has leaked.
func (s *scene) around(i int) string {
	return "http://" + s.cluster.instances[i%len(s.cluster.instances)].where.Front.String()
}

// send sends a request with further fields to the route.
func (c *caller) send(base string, fields ...string) answer {
	return c.do(http.MethodPost, base+"/"+c.policy, fields...)
}

func (c *caller) do(method, url string, fields ...string) answer {
	if c.attacks {
		c.scene.sent.Add(1)
	}
	a, err := c.try(c.scene.cluster.ctx, method, url, nil, fields...)
	if err != nil {
		c.scene.fail(err)
	}
	return a
}

// try is do for those who expect that it fails.
func (c *caller) try(ctx context.Context, method, url string, body io.Reader, fields ...string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set(instance.ClientHeader, c.name)
	fields = slices.Concat(c.fields, fields)
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	to := io.Discard
	if c.slow {
		to = sipping{}
	}
	n, err := io.Copy(to, resp.Body)
	d, _ := instance.Parse(resp.Header.Get(instance.DecisionHeader))
	return answer{resp.StatusCode, resp.Header, resp.Trailer, n, d}, err
}

// sipping takes its time.
type sipping struct{}

func (sipping) Write(b []byte) (int, error) {
	time.Sleep(50 * time.Millisecond)
	return len(b), nil
}

// solving is the work of all clients of the lab: one at a time, so that what is left of the
// machine is the servers'.
var solving sync.Mutex

// solve solves the challenge of an answer. It returns "" and 0 if there is none.
func (c *caller) solve(a answer) (proof string, work int64) {
	challenge, err := pow.ParseHeader(a.header.Get(middleware.ChallengeHeader))
	if err != nil {
		return "", 0
	}
	solving.Lock()
	defer solving.Unlock()
	proof, err = pow.Solve(context.Background(), challenge.Text, pow.SolveOptions{Workers: 1})
	if err != nil {
		c.scene.fail(fmt.Errorf("a challenge cannot be solved: %w", err))
		return "", 0
	}
	work = int64(challenge.Work)
	if c.attacks {
		c.scene.work.Add(work)
		c.scene.solved.Add(1)
	}
	return proof, work
}

// challenge asks an instance for a challenge, which costs nothing.
func (c *caller) challenge(base string) answer {
	return c.do(http.MethodGet, base+"/"+c.policy+"/tally/challenge")
}

// redeem buys a tally for a proof, and returns its first token; "" if it is not sold.
func (c *caller) redeem(base, proof string) string {
	a := c.do(http.MethodPost, base+"/"+c.policy+"/tally/redeem", middleware.ProofHeader, proof)
	if a.status != http.StatusOK {
		return ""
	}
	if c.attacks {
		c.scene.bought.Add(1)
	}
	return a.token()
}
