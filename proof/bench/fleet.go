// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/proof/freeport"
)

// A fleetKind is what a fleet may limit by: which limiter its instances have, and whether clients show
// the tokens that they get.
type fleetKind struct {
	name, limiter string
	echoes        bool
}

var fleets = []fleetKind{
	{none, "bare", false},
	{reference, reference, false},
	{ourName, ourName, true},
	{ourName + "-dropped", ourName, false},
	{ourName + "-ring", ourName + "-ring", false},
	{ourName + "-redis", ourName + "-redis", false},
	{"redis_rate", "redis_rate", false},
	{"httprate/redis", "httprate/redis", false},
}

// Sizes of fleets, connections of clients, and the quota that a dropper is measured by.
var fleetSizes, shortSizes = []int{2, 3, 10}, []int{2, 10}

const connections, dropperQuota = 16, 100

// dropped is long enough that nothing of it comes back while a busy machine starts processes: of an hour one comes
// back in 36 seconds.
var dropped = terms{dropperQuota, 365 * 24 * time.Hour, 1}

// A fleet is some processes, and clients that ask one after the other.
type fleet struct {
	*opening
	errand  errand
	all     []*process
	server  *redisServer // nil: it needs none
	clients []*asker
}

// A process of a fleet serves at an address, and may be asked by the others at another one.
type process struct {
	command      *exec.Cmd
	in           io.WriteCloser
	out          *bufio.Scanner
	address      string
	ring         string
	used, counts float64 // nanoseconds of processors, and accounts of a ring
}

// startFleet starts one, with clients at addresses of their own.
func startFleet(ctx context.Context, o *opening, kind fleetKind, size int, each terms, clients int) *fleet {
	f := &fleet{opening: o, errand: errand{Limiter: kind.limiter, Quota: each.quota, Window: each.window}}
	if strings.Contains(kind.limiter, "redis") {
		f.server = startRedis(o)
		f.errand.Redis = f.server.addr
	}
	for range size {
		f.start(ctx)
	}
	f.tell(f.all)
	for i := range clients {
		a := newAsker(http.MethodPost)
		for k := range f.all {
			a.handlers = append(a.handlers, f.reach(i, f.all[(i+k)%size]))
		}
		if f.clients = append(f.clients, a); kind.echoes {
			a.newestOf(byHeader)
		}
		a.either = true
	}
	return f
}

// start starts one process more, which knows nobody.
func (f *fleet) start(ctx context.Context) {
	e, p := f.errand, &process{ring: net.JoinHostPort("127.0.0.1", must(freeport.Find()))}
	e.Ring = p.ring
	p.command = e.child(ctx)
	out := must(p.command.StdoutPipe())
	p.in, p.out = must(p.command.StdinPipe()), bufio.NewScanner(out)
	check(p.command.Start())
	f.closing(p.end)
	p.out.Scan()
	p.address = p.out.Text()
	f.all = append(f.all, p)
}

// end has a process end in order, and does nothing to one that is killed.
func (p *process) end() error {
	if p.command.ProcessState != nil {
		return nil
	}
	p.in.Close()
	return p.command.Wait()
}

// kill ends a process at once.
func (p *process) kill() {
	check(p.command.Process.Kill())
	_ = p.command.Wait() // it reports the signal
}

// reach connects a client to a process.
func (f *fleet) reach(client int, p *process) http.Handler {
	return dial(f.opening, net.IPv4(127, 0, 0, byte(2+client)), p.address)
}

// tell tells all who is in the ring, if they make one.
func (f *fleet) tell(of []*process) {
	var list []string
	for _, p := range of {
		list = append(list, p.ring)
	}
	for _, p := range f.all {
		p.say(strings.Join(list, " "))
	}
}

// say tells a process who is in its ring, or nothing, and it says what it has used so far.
func (p *process) say(list string) {
	must(fmt.Fprintln(p.in, list))
	p.out.Scan()
	must(fmt.Sscan(p.out.Text(), &p.used, &p.counts))
}

// spent implements service.used.
func (f *fleet) spent() map[string]float64 {
	all := 0.0
	for _, p := range f.all {
		p.say("")
		all += p.used
	}
	if f.server == nil {
		return map[string]float64{"all": all}
	}
	redis := f.server.processorTime()
	return map[string]float64{"all": all + redis, "redis": redis}
}

// flood has the first client ask all processes, in turn, for more than what all of them could let through, and
// returns how many of its requests they let through.
func (f *fleet) flood() (n float64) {
	a := f.clients[0]
	for range len(f.all) * dropperQuota * 5 / 4 {
		a.run(1)
		a.wrong = ""
		if a.w.status == http.StatusOK {
			n++
		}
	}
	return n
}

// changes are what may become of a fleet while a client floods it. Each returns how many of its requests pass.
var changes = []struct {
	name   string
	become func(ctx context.Context, f *fleet) float64
}{
	{"admitted", func(context.Context, *fleet) float64 { return 0 }},

	// Each process is replaced by a new one, which comes before it goes.
	{"deploy", func(ctx context.Context, f *fleet) (n float64) {
		a := f.clients[0]
		for _, old := range slices.Clone(f.all) {
			f.start(ctx)
			f.tell(f.all)
			a.handlers = append(a.handlers, f.reach(0, f.all[len(f.all)-1]))
			n += f.flood()
			f.tell(f.all[1:])
			f.all, a.handlers = f.all[1:], a.handlers[1:]
			n += f.flood()
			check(old.end())
		}
		return n
	}},

	// One is killed, of a ring that which counts the client; the others hear of it later. Another comes in its place.
	{"killed", func(ctx context.Context, f *fleet) (n float64) {
		a := f.clients[0]
		f.spent()
		i := max(0, slices.IndexFunc(f.all, func(p *process) bool { return p.counts > 0 }))
		f.all[i].kill()
		f.all, a.handlers = slices.Delete(f.all, i, i+1), slices.Delete(a.handlers, i, i+1)
		n = f.flood()
		f.tell(f.all)
		n += f.flood()
		f.start(ctx)
		f.tell(f.all)
		a.handlers = append(a.handlers, f.reach(0, f.all[len(f.all)-1]))
		return n + f.flood()
	}},
}

// admitted returns how many requests of one client a fleet lets through within a window, whatever becomes of it.
func admitted(ctx context.Context, kind fleetKind, size int, become func(context.Context, *fleet) float64) float64 {
	o := new(opening)
	f := startFleet(ctx, o, kind, size, dropped, 1)
	n := f.flood()
	n += become(ctx, f)
	if check(o.close()); kind.echoes {
		n++ // its first
	}
	return n
}

// measureFleet measures all fleets of each size beside each other.
func measureFleet(ctx context.Context, s *settings, o *opening, long time.Duration, progress io.Writer) samples {
	all := make(samples)
	for _, size := range fleetSizes {
		var services []service
		started := make(map[string]*fleet)
		for _, kind := range fleets {
			row := inFleet(kind.name, size)
			fmt.Fprintf(progress, "fleet: %s\n", row)
			if kind.name != none {
				for _, c := range changes {
					all.add(row, c.name, admitted(ctx, kind, size, c.become))
				}
			}
			f := startFleet(ctx, o, kind, size, plenty(1), connections)
			started[row] = f
			services = append(services, service{row, f.spent})
		}
		ask := func(row string, caller, _ int) error {
			a := started[row].clients[caller]
			a.run(1)
			return a.after(1)
		}
		rotate(ctx, s, services, []load{{"", connections, ask}}, long/time.Duration(len(fleetSizes)), all, progress)
		check(o.close())
	}
	for row := range all {
		for _, wall := range all[row]["wall"] {
			all.add(row, "rate", 1e9/wall)
		}
	}
	return all
}

// inFleet returns the name of a row.
func inFleet(name string, size int) string { return name + " " + strconv.Itoa(size) }
