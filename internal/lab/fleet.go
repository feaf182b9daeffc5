// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tallystick/tallystick/internal/lab/instance"
	"github.com/tallystick/tallystick/internal/lab/judge"
)

// fleetSize is how many processes there are.
const fleetSize = 4

// A fleet is processes that serve for long, as built for the race detector: behind the proxy by HTTP/1.1,
// and straight by HTTP/2. Their clocks run. The first lives as long as the fleet, so that what grows
// is seen; the others are restarted one after the other.
type fleet struct {
	*scene
	dir    string
	length time.Duration
	window time.Duration
	rules  map[string]*rule
	where  []instance.Where
	ring   []string // secrets
	up     bool     // quotas are
	next   int      // which process is restarted

	away   judge.Outage // a process is not there
	starts []span       // as the first field of found, of those who operate
	raids  map[string]*raid

	unjust, lost, broken, deaths judge.Complaints

	book  sync.Mutex
	kinds map[string]*kind
	found fleetFindings
}

// A kind counts what became of requests of some kind.
type kind struct{ sent, admitted, refused, lost atomic.Int64 }

func (f *fleet) kind(name string) *kind {
	f.book.Lock()
	defer f.book.Unlock()
	if f.kinds[name] == nil {
		f.kinds[name] = &kind{}
	}
	return f.kinds[name]
}

// admitted reports whether an answer is the handler's.
func admitted(a answer) bool { return a.status < 300 || a.status == http.StatusUnauthorized }

// heard counts an answer, and says what it was.
func (k *kind) heard(a answer, err error) *atomic.Int64 {
	k.sent.Add(1)
	n := &k.refused
	switch {
	case err != nil || a.status >= http.StatusInternalServerError: // or the proxy's
		n = &k.lost
	case admitted(a):
		n = &k.admitted
	}
	n.Add(1)
	return n
}

// hears has an honest client send a request, and judges the answer.
func (f *fleet) hears(name string, m *meter, send func() (answer, error)) answer {
	k, quota, since, from := f.kind(name), m.rule.now(), f.away.Now(), time.Now().UnixMicro()
	a, err := send()
	at, q := span{from, time.Now().UnixMicro()}, quota()
	switch k.heard(a, err) {
	case &k.admitted:
		m.charge(at, q, a.status == http.StatusUnauthorized)
	case &k.lost:
		m.charge(at, q, true)
		if f.away.Stood(since) {
			f.lost.Note(fmt.Sprintf("%s: %d %v", name, a.status, err))
		}
	default:
		if m.room(at, q) {
			f.unjust.Note(fmt.Sprintf("%s: %d, RateLimit %q, quota %+v", name, a.status, a.header.Get("RateLimit"), q))
		}
	}
	return a
}

// runFleet has a fleet serve for so long, or until each thing has happened, and returns what was found.
func runFleet(ctx context.Context, dir, program string, length time.Duration) (_ fleetFindings, err error) {
	window := min(30*time.Second, max(4*time.Second, (length/12).Truncate(time.Second)))
	f := &fleet{
		scene: &scene{row: "fleet", block: 16}, dir: dir, length: length, window: window, rules: rulesFor(length, window),
		raids: map[string]*raid{}, kinds: map[string]*kind{},
	}
	f.ring = []string{strings.Repeat("a secret of the lab ", 3)}
	if err := f.write(); err != nil {
		return f.found, err
	}
	f.site = instance.Config{Fleet: &instance.Fleet{Policies: filepath.Join(dir, "policies.json"), Keys: dir}}
	// The processes are ended by the fleet, not with the time of their clients.
	f.cluster, err = startCluster(context.WithoutCancel(ctx), dir, program, fleetSize, f.site, f.dress)
	if err != nil {
		return f.found, err
	}
	defer func() { err = errors.Join(err, f.cluster.stop(), f.failed()) }()
	for _, p := range f.cluster.instances {
		f.where = append(f.where, p.where)
	}
	began := time.Now()
	traffic, stop := context.WithCancel(ctx)
	defer stop()
	var clients sync.WaitGroup
	f.start(traffic, func(c func()) { clients.Go(c) })
	f.operate(ctx)
	stop()
	clients.Wait()
	f.found.interrupted, f.found.length = ctx.Err() != nil, time.Since(began)
	f.end()
	return f.found, nil
}

// dress gives a process a folder for its files, and for what it and the race detector say.
func (f *fleet) dress(cmd *exec.Cmd, number int64) {
	files := f.files(number)
	said, err := os.Create(files + ".said")
	if err = errors.Join(err, os.Mkdir(files, 0o700)); err != nil {
		f.fail(err)
		return
	}
	cmd.Stderr = said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for the lab, which then writes its table
	cmd.Env = append(os.Environ(), "TMPDIR="+files, "GORACE=halt_on_error=0 exitcode=0 log_path="+filepath.Join(f.dir, "race"))
}

// files is the folder of temporary files of a process.
func (f *fleet) files(number int64) string {
	return filepath.Join(f.dir, fmt.Sprintf("files-%d", number))
}

// operate restarts, rotates and reloads until the time is over, sees that no process dies, and looks at the first.
func (f *fleet) operate(ctx context.Context) {
	every := min(10*time.Second, f.length/24)
	looks := max(f.length/100, 300*time.Millisecond)
	steps := []func() error{f.move, f.restart, f.add, f.wrong, f.lead, f.move, f.restart, f.drop}
	look := time.Now()
	step, end := look.Add(every), look.Add(f.length)
	for i := 0; pace(ctx, 200*time.Millisecond) && (i < len(steps) || time.Now().Before(end)); {
		for n, p := range f.cluster.instances {
			select {
			case <-p.gone:
				f.deaths.Note(f.last(n))
				if err := f.replace(n, func() {}); err != nil {
					f.broken.Note("no process starts in the place of one that died: " + err.Error())
				}
			default:
			}
		}
		if now := time.Now(); now.After(look) {
			look = now.Add(looks)
			if s, err := f.cluster.instances[0].state(); err == nil {
				f.found.heap = append(f.found.heap, float64(s.Heap))
				f.found.goroutines = append(f.found.goroutines, float64(s.Goroutines))
			}
		} else if now.After(step) {
			step = now.Add(every)
			if err := steps[i%len(steps)](); err != nil && ctx.Err() == nil {
				f.broken.Note("operating: " + err.Error())
			}
			i++
		}
	}
}

// last is what a process has said last.
func (f *fleet) last(n int) string {
	p := f.cluster.instances[n]
	said, _ := os.ReadFile(f.files(p.number) + ".said")
	return fmt.Sprintf("process %d: %v: %.2000s", p.number, p.err, said)
}

// restart has a process that is asked to end do so, and starts another in its place.
func (f *fleet) restart() error {
	f.next = f.next%(fleetSize-1) + 1
	f.found.restarts++
	return f.replace(f.next, func() { f.ends(f.next) })
}

func (f *fleet) replace(n int, end func()) error {
	f.away.Change()
	defer f.away.Change()
	from := time.Now().UnixMicro()
	end()
	cfg := f.site
	cfg.Listen = f.where[n].Front
	cfg.Fleet = &instance.Fleet{Policies: f.site.Fleet.Policies, Keys: f.dir, Safe: f.where[n].Safe}
	p, err := f.cluster.start(cfg)
	if err != nil {
		return err
	}
	f.cluster.instances[n] = p
	f.starts = append(f.starts, span{from, time.Now().UnixMicro()})
	time.Sleep(time.Second) // until clients know
	return nil
}

// ends asks a process to end, and sees how it does.
func (f *fleet) ends(n int) {
	p := f.cluster.instances[n]
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.gone:
	case <-time.After(time.Minute):
		f.broken.Note("a process that was asked to end does not")
		_ = p.cmd.Process.Kill()
		<-p.gone
	}
	if p.err != nil {
		f.deaths.Note(f.last(n))
	}
}

// end sees what is left when all requests have ended, and ends the processes.
func (f *fleet) end() {
	f.over() // connections
	x := &f.found
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		left, _ := filepath.Glob(filepath.Join(f.dir, "files-*", "*"))
		if x.files = int64(len(left)); x.files == 0 || time.Now().After(until) {
			break
		}
	}
	for n := range f.cluster.instances {
		f.ends(n)
	}
	reports, _ := filepath.Glob(filepath.Join(f.dir, "race.*"))
	for _, name := range reports {
		text, err := os.ReadFile(name)
		if err != nil {
			f.fail(err)
		}
		if x.races.N == 0 {
			x.races.First = fmt.Sprintf("%.4000s", text)
		}
		x.races.N += int64(strings.Count(string(text), "WARNING: DATA RACE"))
	}
	said, _ := filepath.Glob(filepath.Join(f.dir, "*.said"))
	for _, name := range said {
		text, _ := os.ReadFile(name)
		if i := strings.Index(string(text), "panic serving"); i >= 0 {
			f.broken.Note(fmt.Sprintf("%.2000s", text[i:]))
		}
	}
	x.kinds = map[string][4]int64{}
	for name, k := range f.kinds {
		x.kinds[name] = [4]int64{k.sent.Load(), k.admitted.Load(), k.refused.Load(), k.lost.Load()}
	}
	x.raids = map[string]raided{}
	for name, r := range f.raids {
		excess, most := r.over(f.starts)
		x.raids[name] = raided{excess, most}
	}
	x.unjust, x.lost, x.broken, x.deaths = f.unjust.Read(), f.lost.Read(), f.broken.Read(), f.deaths.Read()
}
