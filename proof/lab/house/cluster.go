// SPDX-License-Identifier: Apache-2.0

// Package house is what the lab attacks: instances of a site, within this process or as processes behind a real nginx, and
// what they and the lab tell each other. It builds, starts, kills and restarts them.
package house

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
)

// A Plan is what a cluster is.
type Plan struct {
	Dir     string // for all files
	Program string // that Build has built; "": the instances are within this process, and there is no proxy
	Size    int
	Site    Config                          // what all of them serve
	TLS     bool                            // they take it too
	Spread  bool                            // the proxy leaves to chance where a request goes, and asks another one if that is not there
	Wrap    func(http.Handler) http.Handler // within this process, in front of all handlers
}

// A Cluster is some instances of one site, and the proxy in front of them.
type Cluster struct {
	Plan
	Instances []*Process
	Proxy     *Proxy // nil within this process
	Roots     *x509.CertPool
	Clock     atomic.Int64 // Unix seconds, the same on all
	ctx       context.Context
	started   int64
	before    State // what instances had seen that are no more

	ListStands bool // the list of peers stays what it was when instances start
}

// Start starts instances, and the proxy in front of them.
func Start(ctx context.Context, plan Plan) (_ *Cluster, err error) {
	c := &Cluster{Plan: plan, ctx: ctx}
	c.Clock.Store(plan.Site.Now)
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if c.Roots, err = certify(plan.Dir); err != nil {
		return nil, err
	}
	var fronts []netip.AddrPort
	for i := range plan.Size {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(10 + i)}), 0)
		where := Where{Front: at}
		if plan.TLS {
			where.Safe = at
		}
		p, err := c.start(i, where)
		if err != nil {
			return nil, err
		}
		if c.Instances = append(c.Instances, p); plan.Site.Secret != nil {
			err = c.TellPeers()
		}
		if err != nil {
			return nil, err
		}
		fronts = append(fronts, p.Where.Front)
	}
	if plan.Program != "" {
		c.Proxy, err = startProxy(ctx, plan.Dir, plan.Spread, fronts)
	}
	return c, err
}

// start starts an instance.
func (c *Cluster) start(place int, where Where) (*Process, error) {
	c.started++
	cfg := c.Site
	cfg.Process, cfg.Place, cfg.Now, cfg.Listen, cfg.Safe, cfg.Keys = c.started, place, c.Clock.Load(), where.Front, where.Safe, c.Dir
	if c.Program == "" {
		s, where, err := newSite(cfg, c.Wrap)
		return &Process{site: s, Where: where}, err
	}
	return launch(c.ctx, c.Dir, c.Program, cfg)
}

// Restart replaces an instance by one that remembers nothing. It is ended as end says; by nil, at once.
func (c *Cluster) Restart(i int, end func(*Process) error) error {
	last, err := c.Instances[i].State()
	if err != nil {
		return err
	}
	c.before.add(last)
	if end == nil {
		end = (*Process).stop
	}
	return errors.Join(end(c.Instances[i]), c.Replace(i))
}

// Replace starts an instance where one has ended.
func (c *Cluster) Replace(i int) error {
	p, err := c.start(i, c.Instances[i].Where)
	if err == nil {
		c.Instances[i] = p
		if c.Site.Secret != nil && !c.ListStands {
			err = c.TellPeers()
		}
	}
	return err
}

// Stop ends all.
func (c *Cluster) Stop() (err error) {
	if c.Proxy != nil {
		c.Proxy.Kill()
	}
	for _, p := range c.Instances {
		err = errors.Join(err, p.stop())
	}
	return err
}

// State returns what all instances have seen, together.
func (c *Cluster) State() (all State, err error) {
	all.add(c.before)
	c.before.Longest = 0
	for _, p := range c.Instances {
		s, err := p.State()
		if err != nil {
			return all, err
		}
		all.add(s)
	}
	return all, nil
}

// Advance puts the clocks of all instances forward, and right.
func (c *Cluster) Advance(seconds int64) (err error) {
	now := c.Clock.Add(seconds)
	for i := range c.Instances {
		err = errors.Join(err, c.Set(i, now))
	}
	return err
}

// Set puts the clock of one instance.
func (c *Cluster) Set(i int, now int64) error {
	return c.Instances[i].Post("clock", "now", strconv.FormatInt(now, 10))
}

// TellPeers writes the list of all peers.
func (c *Cluster) TellPeers() error {
	var list []string
	for _, p := range c.Instances {
		list = append(list, p.Where.Peers.String())
	}
	return Put(filepath.Join(c.Dir, peersFile), strings.Join(list, "\n"))
}

// Cut cuts the wires between the first instances and the others; at 0 it mends all.
func (c *Cluster) Cut(at int) error {
	for i, p := range c.Instances {
		var refused []string
		for j, q := range c.Instances {
			if at > 0 && (i < at) != (j < at) {
				refused = append(refused, q.Where.Peers.String())
			}
		}
		if err := p.Post("cut", "addresses", strings.Join(refused, " ")); err != nil {
			return err
		}
	}
	return nil
}

// Configure writes a file of policies, and that of their secrets. Proxies are believed which are on the addresses of instances.
func Configure(dir, file, secrets, ring string, policies map[string]any) error {
	text, err := json.Marshal(map[string]any{
		"secrets":  map[string]any{"file": secrets},
		"identity": map[string]any{"from": "forwarded-for", "trusted": []string{"127.0.0.0/24"}},
		"policies": policies,
	})
	return errors.Join(err, Put(filepath.Join(dir, secrets), ring), Put(filepath.Join(dir, file), string(text)))
}

// Put writes a file that instances are configured by, whole or not at all.
func Put(file, text string) error {
	return errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file))
}
