// SPDX-License-Identifier: Apache-2.0

// Package house is what the lab attacks: instances of a site, as processes behind a real nginx, and what they and the lab tell each
// other. It builds, starts, kills and restarts them.
package house

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/proof/program"
)

// A Plan describes a cluster.
type Plan struct {
	Dir     string // for all files
	Program string // that Build has built
	Size    int
	Site    Config // what all of them serve
}

// A Cluster is some instances of one site, and the proxy in front of them.
type Cluster struct {
	Plan
	Instances []*Process
	Proxy     *Proxy
	Redis     *program.Server
	Roots     *x509.CertPool
	Clock     atomic.Int64 // Unix seconds, the same on all
	Still     sync.RWMutex // the clocks stand for those that read-lock it
	Anew      atomic.Int64 // how often an instance has started
	Away      Outage       // of an instance
	Names     *Names       // of peers

	ctx       context.Context
	started   int64
	port      uint16     // where all of them hear each other
	operating sync.Mutex // of what replaces instances, or changes what they are configured by
	before    State      // what instances had seen that are no more
	faults    []Fault
}

// An Outage is when something does not stand, or others do not know yet that it does.
type Outage struct {
	state atomic.Int64 // even: it stands; odd: it does not
}

// Now is for Stood.
func (o *Outage) Now() int64 { return o.state.Load() }

// Stood says whether it stood all the time since Now said this.
func (o *Outage) Stood(since int64) bool { return since%2 == 0 && o.state.Load() == since }

// change is the beginning or the end of an outage.
func (o *Outage) change() { o.state.Add(1) }

// Start starts instances, and the proxy in front of them.
func Start(ctx context.Context, plan Plan) (_ *Cluster, err error) {
	c := &Cluster{Plan: plan, ctx: ctx}
	c.Clock.Store(plan.Site.Now)
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	if c.Roots, err = certify(plan.Dir); err == nil {
		c.Names, err = serveNames()
	}
	if err == nil {
		c.Redis, err = program.StartRedis(plan.Dir)
	}
	if err != nil {
		return nil, err
	}
	c.Site.Redis = "redis://" + c.Redis.Addr()
	var fronts []netip.AddrPort
	for i := range plan.Size {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(10 + i)}), 0)
		p, err := c.start(i, Where{Front: at})
		if err != nil {
			return nil, err
		}
		c.Instances = append(c.Instances, p)
		fronts = append(fronts, p.Where.Front)
	}
	c.Anew.Store(0)
	c.Proxy, err = startProxy(ctx, plan.Dir, fronts)
	return c, err
}

// start starts an instance.
func (c *Cluster) start(place int, where Where) (p *Process, err error) {
	c.started++
	c.Anew.Add(1)
	cfg := c.Site
	cfg.Process, cfg.Now, cfg.Listen, cfg.Dir = c.started, c.Clock.Load(), where.Front, c.Dir
	pod := netip.AddrFrom4([4]byte{127, 9, byte(c.started >> 8), byte(c.started)})
	cfg.Pod, cfg.Resolver = netip.AddrPortFrom(pod, c.port), c.Names.node(place)
	c.Names.set(pod, false)
	if p, err = launch(c.ctx, c.Dir, c.Program, cfg); err == nil {
		c.port = p.Where.Peers.Port()
		c.Names.set(pod, true)
	}
	return p, err
}

// Restart replaces an instance by one that remembers nothing. It is ended as end says.
func (c *Cluster) Restart(i int, end func(*Process) error) error {
	return c.operate(func() error { return errors.Join(c.end(c.Instances[i], end), c.replace(i)) })
}

// Surge is Restart, but the other starts before this one ends, and both serve meanwhile.
func (c *Cluster) Surge(i int, end func(*Process) error) error {
	return c.operate(func() error {
		old := c.Instances[i]
		return errors.Join(c.replace(i), c.end(old, end))
	})
}

// operate does what may keep an instance from answering.
func (c *Cluster) operate(do func() error) error {
	c.operating.Lock()
	defer c.operating.Unlock()
	c.Away.change()
	defer c.Away.change()
	return do()
}

func (c *Cluster) end(p *Process, end func(*Process) error) error {
	last, err := p.State()
	if err != nil {
		return err
	}
	c.before.add(last)
	c.Names.set(p.Where.Peers.Addr(), false)
	defer c.Names.gone(p.Where.Peers.Addr())
	c.ends(p, end)
	return nil
}

// ends ends an instance, and keeps what is wrong with how it does.
func (c *Cluster) ends(p *Process, end func(*Process) error) {
	if err := end(p); err != nil {
		c.fault("an instance that died, or that left goroutines when it ended", "%v: %s", err, p.Said())
	}
}

// replace starts an instance in the place of one.
func (c *Cluster) replace(i int) error {
	p, err := c.start(i, c.Instances[i].Where)
	if err == nil {
		c.Instances[i] = p
	}
	return err
}

// Reload has write change what all instances are configured by, and them read it. Each must refuse what is broken.
func (c *Cluster) Reload(write, broken func() error) (err error) {
	c.operating.Lock()
	defer c.operating.Unlock()
	if err := broken(); err != nil {
		return err
	}
	for _, p := range c.Instances {
		if p.Call("Reload", 0, nil) == nil {
			c.fault("a file that is broken, and was taken", "")
		}
	}
	err = write()
	for _, p := range c.Instances {
		err = errors.Join(err, p.Call("Reload", 0, nil))
	}
	return err
}

// A Fault is something that no instance may do.
type Fault struct{ What, Why string }

func (c *Cluster) fault(what, format string, of ...any) {
	c.faults = append(c.faults, Fault{what, fmt.Sprintf(format, of...)})
}

// End ends all instances as an operator does, and returns what they have done that they may not, and what they have left behind.
func (c *Cluster) End() []Fault {
	c.operating.Lock()
	defer c.operating.Unlock()
	all, err := c.state()
	if err != nil {
		c.fault("an instance that died, or that left goroutines when it ended", "%v", err)
	}
	for _, line := range all.Logged {
		c.fault("a line that a server logs", "%s", line)
	}
	for _, p := range c.Instances {
		c.ends(p, (*Process).End)
	}
	for name, sign := range map[string]string{"race.*": "WARNING: DATA RACE", "*.said": "panic"} {
		for _, file := range c.files(name) {
			text, err := os.ReadFile(file)
			if at := bytes.Index(text, []byte(sign)); err != nil || at >= 0 {
				c.fault("a "+strings.ToLower(strings.TrimPrefix(sign, "WARNING: ")), "%v %.4000s", err, text[max(0, at):])
			}
		}
	}
	return c.faults
}

// files returns the files of this run that have such a name.
func (c *Cluster) files(name string) []string {
	files, _ := filepath.Glob(filepath.Join(c.Dir, name)) // the names are all right
	return files
}

// Stop ends all.
func (c *Cluster) Stop() {
	if c.Proxy != nil {
		c.Proxy.Kill()
	}
	for _, p := range c.Instances {
		p.stop()
	}
	if c.Names != nil {
		c.Names.close()
	}
	if c.Redis != nil {
		c.Redis.Kill()
	}
}

// State returns what all instances have seen, together.
func (c *Cluster) State() (all State, err error) {
	c.operating.Lock()
	defer c.operating.Unlock()
	return c.state()
}

func (c *Cluster) state() (all State, err error) {
	all.add(c.before)
	for _, p := range c.Instances {
		s, err := p.State()
		if err != nil {
			return all, err
		}
		all.add(s)
	}
	return all, nil
}

// Advance puts the clocks of all instances forward.
func (c *Cluster) Advance(seconds int64) (err error) {
	c.Still.Lock()
	defer c.Still.Unlock()
	now := c.Clock.Add(seconds)
	for _, p := range c.Instances {
		err = errors.Join(err, p.Call("Advance", now, nil))
	}
	return err
}

// Hear reports whether each instance hears each other.
func (c *Cluster) Hear() (all bool, err error) {
	for _, p := range c.Instances {
		var s State
		if err := p.Call("State", false, &s); err != nil {
			return false, err
		}
		for _, q := range c.Instances {
			if p != q && !slices.Contains(s.Heard, q.Where.Peers.String()) {
				return false, nil
			}
		}
	}
	return true, nil
}

// A Line is of the log of an instance about its peers.
type Line struct {
	Time         time.Time
	Code, Member string
	Self         string // where the instance is heard
}

// Lines are all of them that were written, also of instances that are no more.
func (c *Cluster) Lines() (all []Line, err error) {
	for _, file := range c.files("*" + peersLog) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(text) {
			l := Line{Self: strings.TrimSuffix(filepath.Base(file), peersLog)}
			if json.Unmarshal(line, &l) == nil { // the last may not be whole
				all = append(all, l)
			}
		}
	}
	return all, nil
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
		if err := p.Call("Cut", refused, nil); err != nil {
			return err
		}
	}
	return nil
}

// Policies is the file that says what all instances of a folder serve.
const Policies = "policies.json"

// Configure writes it, and the secrets. Proxies on the addresses of instances are trusted.
func Configure(dir, secrets string, policies map[string]any) error {
	text, err := json.Marshal(map[string]any{
		"secrets":  map[string]any{"file": "secrets"},
		"identity": map[string]any{"from": "forwarded-for", "trusted": []string{"127.0.0.0/24"}},
		"policies": policies,
	})
	return errors.Join(err, Put(filepath.Join(dir, "secrets"), secrets), Put(filepath.Join(dir, Policies), string(text)))
}

// Put writes a file that instances are configured by, whole or not at all.
func Put(file, text string) error {
	return errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file))
}
