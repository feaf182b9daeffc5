// SPDX-License-Identifier: Apache-2.0

package house

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/tallystick/tallystick/proof/lab/instance"
	"github.com/tallystick/tallystick/proof/lab/site"
)

// A Plan is what a cluster is.
type Plan struct {
	Dir     string // for all files
	Program string // that Build has built; "": the instances are within this process, and there is no proxy
	Size    int
	Site    instance.Config                 // what all of them serve
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
	Clock     int64 // Unix seconds, the same on all
	ctx       context.Context
	started   int64
	before    instance.State // what instances had seen that are no more
}

// Most is more than there are instances: the number of a process, modulo that, says which instance it is.
const Most = 64

// A Process is one instance.
type Process struct {
	Number int64
	Where  instance.Where
	*program
	stdin io.Closer  // the process ends with it
	site  *site.Site // within this process
}

// Start starts instances, and the proxy in front of them.
func Start(ctx context.Context, plan Plan) (_ *Cluster, err error) {
	c := &Cluster{Plan: plan, ctx: ctx, Clock: plan.Site.Now, before: instance.State{Counts: map[string]map[string]int64{}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if c.Roots, err = certify(plan.Dir); err != nil {
		return nil, err
	}
	if plan.Program != "" {
		c.Proxy = &Proxy{dir: plan.Dir, spread: plan.Spread}
	}
	var fronts []netip.AddrPort
	for i := range plan.Size {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(10 + i)}), 0)
		where := instance.Where{Front: at}
		if plan.TLS {
			where.Safe = at
		}
		p, err := c.start(i, where)
		if err != nil {
			return nil, err
		}
		c.Instances = append(c.Instances, p)
		fronts = append(fronts, p.Where.Front)
	}
	if c.Proxy != nil {
		err = c.Proxy.start(ctx, fronts)
	}
	return c, err
}

// start starts an instance.
func (c *Cluster) start(i int, where instance.Where) (*Process, error) {
	c.started++
	cfg := c.Site
	cfg.Process, cfg.Now, cfg.Listen, cfg.Safe, cfg.Keys = c.started*Most+int64(i), c.Clock, where.Front, where.Safe, c.Dir
	cfg.Place = i
	p := &Process{Number: cfg.Process}
	var err error
	if c.Program == "" {
		p.site, p.Where, err = site.Start(cfg, c.Wrap)
		return p, err
	}
	files := c.Files(p.Number)
	said, err := os.Create(files + ".said")
	if err = errors.Join(err, os.Mkdir(files, 0o700)); err != nil {
		return nil, err
	}
	defer said.Close()
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(c.ctx, c.Program)
	cmd.Stderr = said
	cmd.Env = append(os.Environ(), "TMPDIR="+files, "GORACE=halt_on_error=0 exitcode=0 log_path="+filepath.Join(c.Dir, "race"))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.program, err = launch(cmd); err != nil {
		return nil, err
	}
	p.stdin = stdin
	if _, err = stdin.Write(text); err == nil {
		var line []byte
		if line, err = bufio.NewReader(stdout).ReadBytes('\n'); err == nil {
			err = json.Unmarshal(line, &p.Where)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("an instance does not say where it listens: %w: %s", err, c.Said(p)), p.stop())
	}
	return p, nil
}

// Files is the folder of temporary files of a process.
func (c *Cluster) Files(number int64) string {
	return filepath.Join(c.Dir, fmt.Sprintf("files-%d", number))
}

// Said is what a process has said.
func (c *Cluster) Said(p *Process) string {
	said, _ := os.ReadFile(c.Files(p.Number) + ".said")
	return fmt.Sprintf("process %d: %.2000s", p.Number, said)
}

// stop ends an instance, at once.
func (p *Process) stop() error {
	if p.site != nil {
		ctx, stop := context.WithCancel(context.Background())
		stop()
		return p.site.Stop(ctx)
	}
	_ = p.stdin.Close()
	return p.kill()
}

// End asks an instance to end, and says what is wrong with how it does.
func (p *Process) End() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if p.site != nil {
		return p.site.Stop(ctx)
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.gone:
		return p.err
	case <-ctx.Done():
		return errors.Join(errors.New("a process that was asked to end does not"), p.kill())
	}
}

// Died reports whether it has ended by itself.
func (p *Process) Died() bool {
	if p.site != nil {
		return len(p.site.Failed()) > 0
	}
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// Restart replaces an instance by one that remembers nothing. It is ended as end says; by nil, at once.
func (c *Cluster) Restart(i int, end func(*Process) error) error {
	last, err := c.Instances[i].State()
	if err != nil {
		return err
	}
	sum(&c.before, last)
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
	}
	return err
}

// Stop ends all.
func (c *Cluster) Stop() error {
	var errs []error
	if c.Proxy != nil && c.Proxy.program != nil {
		errs = append(errs, c.Proxy.kill())
	}
	for _, p := range c.Instances {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

// State asks an instance what it has seen.
func (p *Process) State() (s instance.State, err error) { return s, p.Get("/state?whole=1", &s) }

// Get asks an instance something.
func (p *Process) Get(what string, of any) error {
	resp, err := http.Get("http://" + p.Where.Back.String() + what)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("an instance does not %s: %s", what, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(of) // some hundred bytes for each row
}

// State returns what all instances have seen, together.
func (c *Cluster) State() (instance.State, error) {
	all := instance.State{Counts: map[string]map[string]int64{}}
	sum(&all, c.before)
	for _, p := range c.Instances {
		s, err := p.State()
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

// Advance puts the clocks of all instances forward.
func (c *Cluster) Advance(seconds int64) error {
	c.Clock += seconds
	for i := range c.Instances {
		if err := c.Set(i, c.Clock); err != nil {
			return err
		}
	}
	return nil
}

// Set puts the clock of one instance.
func (c *Cluster) Set(i int, now int64) error {
	return c.Instances[i].Post("clock", "now", strconv.FormatInt(now, 10))
}

// Post tells an instance to do something.
func (p *Process) Post(what string, form ...string) error {
	values := url.Values{}
	for i := 0; i < len(form); i += 2 {
		values.Set(form[i], form[i+1])
	}
	resp, err := http.PostForm("http://"+p.Where.Back.String()+"/"+what, values)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("an instance does not %s: %s", what, resp.Status)
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
