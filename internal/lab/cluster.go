// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/tallystick/tallystick/internal/lab/instance"
)

// A cluster is some instances of one site behind a proxy.
type cluster struct {
	ctx       context.Context
	dir       string
	program   string
	instances []*process
	proxy     *proxy
	dress     func(*exec.Cmd, int64) // what a process, by its number, is given; nil: nothing
	clock     int64                  // Unix seconds, the same on all
	started   int64                  // processes
	before    instance.State         // what instances had seen that are no more
}

// A process is one instance.
type process struct {
	where  instance.Where
	cmd    *exec.Cmd
	stdin  io.Closer     // the process ends with it
	gone   chan struct{} // closed when it has ended
	err    error         // of Wait; before that, nobody reads it
	number int64
}

// startCluster starts instances, and the proxy in front of them.
func startCluster(ctx context.Context, dir, program string, n int, cfg instance.Config, dress func(*exec.Cmd, int64)) (_ *cluster, err error) {
	c := &cluster{ctx: ctx, dir: dir, program: program, dress: dress, clock: cfg.Now, before: instance.State{Counts: map[string]map[string]int64{}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	if c.proxy, err = newProxy(dir, cfg.Fleet != nil); err != nil {
		return nil, err
	}
	for i := range n {
		cfg.Listen = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(10 + i)}), 0)
		if cfg.Fleet != nil {
			f := *cfg.Fleet
			f.Safe, cfg.Fleet = cfg.Listen, &f
		}
		p, err := c.start(cfg)
		if err != nil {
			return nil, err
		}
		c.instances = append(c.instances, p)
	}
	return c, c.proxy.start(ctx, c.fronts())
}

func (c *cluster) fronts() (list []netip.AddrPort) {
	for _, p := range c.instances {
		list = append(list, p.where.Front)
	}
	return list
}

// start starts an instance.
func (c *cluster) start(cfg instance.Config) (*process, error) {
	c.started++
	cfg.Process = c.started
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(c.dir, "instance.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(c.ctx, c.program, "-config", file)
	cmd.Stderr = os.Stderr
	if c.dress != nil {
		c.dress(cmd, cfg.Process)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, number: cfg.Process, stdin: stdin, gone: make(chan struct{})}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	go func() {
		defer close(p.gone)
		p.err = cmd.Wait()
	}()
	if err == nil {
		err = json.Unmarshal(line, &p.where)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("an instance does not say where it listens: %w", err), p.stop())
	}
	return p, nil
}

// stop ends an instance, at once.
func (p *process) stop() error {
	_ = p.cmd.Process.Kill()
	_ = p.stdin.Close()
	<-p.gone
	var exit *exec.ExitError
	if p.err != nil && !errors.As(p.err, &exit) {
		return p.err
	}
	return nil
}

// restart replaces an instance by one that remembers nothing.
func (c *cluster) restart(i int, cfg instance.Config) error {
	last, err := c.instances[i].state()
	if err != nil {
		return err
	}
	sum(&c.before, last)
	if err := c.instances[i].stop(); err != nil {
		return err
	}
	cfg.Now, cfg.Listen = c.clock, c.instances[i].where.Front
	p, err := c.start(cfg)
	if err == nil {
		c.instances[i] = p
	}
	return err
}

// stop ends all.
func (c *cluster) stop() error {
	var errs []error
	if c.proxy != nil {
		errs = append(errs, c.proxy.stop())
	}
	for _, p := range c.instances {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

// state asks an instance what it has seen.
func (p *process) state() (s instance.State, err error) {
	resp, err := http.Get("http://" + p.where.Back.String() + "/state")
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(resp.Body).Decode(&s) // some hundred bytes for each row
}

// state returns what all instances have seen, together.
func (c *cluster) state() (instance.State, error) {
	all := instance.State{Counts: map[string]map[string]int64{}}
	sum(&all, c.before)
	for _, p := range c.instances {
		s, err := p.state()
		if err != nil {
			return all, err
		}
		sum(&all, s)
	}
	return all, nil
}

func sum(to *instance.State, s instance.State) {
	to.CPU += s.CPU
	to.Heap = max(to.Heap, s.Heap)
	for name, counts := range s.Counts {
		if to.Counts[name] == nil {
			to.Counts[name] = map[string]int64{}
		}
		for what, n := range counts {
			to.Counts[name][what] += n
		}
	}
}

// advance puts the clocks of all instances forward.
func (c *cluster) advance(seconds int64) error {
	c.clock += seconds
	for i := range c.instances {
		if err := c.set(i, c.clock); err != nil {
			return err
		}
	}
	return nil
}

// set puts the clock of one instance.
func (c *cluster) set(i int, now int64) error {
	return c.instances[i].post("/clock?now=" + strconv.FormatInt(now, 10))
}

// post tells an instance to do something.
func (p *process) post(what string) error {
	resp, err := http.Post("http://"+p.where.Back.String()+what, "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("an instance does not %s: %s", what, resp.Status)
	}
	return nil
}
