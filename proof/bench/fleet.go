// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/proof/program"
)

// A fleetKind names the limiter of a fleet's instances, and says whether clients show the tokens that they get.
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
	{redisRate, redisRate, false},
	{"httprate/redis", "httprate/redis", false},
}

// Sizes of fleets, connections of clients, and the quota that a dropper is measured by.
var fleetSizes, shortSizes = []int{2, 3, 10}, []int{2, 10}

const connections, dropperQuota = 16, 100

// dropped is long enough that nothing of it comes back while a busy machine starts processes: of an hour one comes
// back in 36 seconds.
var dropped = terms{dropperQuota, 365 * 24 * time.Hour, 1}

// A fleet is some processes, which serve, and clients that ask one after the other.
type fleet struct {
	ask     []func(list string) (used float64)
	server  *redisServer // nil: it needs none
	clients []*asker
}

// startFleet starts one, with clients at addresses of their own.
func startFleet(ctx context.Context, o *opening, kind fleetKind, size int, each terms, clients int) *fleet {
	f, e := new(fleet), errand{Limiter: kind.limiter, Quota: each.quota, Window: each.window}
	if strings.Contains(kind.limiter, "redis") {
		o.startRedis()
		f.server, e.Redis = o.server, o.redis
	}
	var addresses, ring []string
	for range size {
		e.Ring = net.JoinHostPort("127.0.0.1", must(program.FreePort()))
		address, ask := e.serve(ctx, o)
		addresses, ring, f.ask = append(addresses, address), append(ring, e.Ring), append(f.ask, ask)
	}
	for _, ask := range f.ask {
		ask(strings.Join(ring, " "))
	}
	for i := range clients {
		a := newAsker(http.MethodPost)
		for k := range addresses {
			a.handlers = append(a.handlers, dial(o, net.IPv4(127, 0, 0, byte(2+i)), addresses[(i+k)%size]))
		}
		if f.clients = append(f.clients, a); kind.echoes {
			a.newestOf(byHeader)
		}
		a.either = true
	}
	return f
}

// serve has a child serve, at an address. To ask names the members of its ring, or none, and returns the
// nanoseconds of processors that it has used so far.
func (e errand) serve(ctx context.Context, o *opening) (address string, ask func(list string) (used float64)) {
	c := e.child(ctx)
	in, out := must(c.StdinPipe()), bufio.NewScanner(must(c.StdoutPipe()))
	check(c.Start())
	o.closing(func() error {
		in.Close()
		return c.Wait()
	})
	out.Scan()
	return out.Text(), func(list string) (used float64) {
		must(fmt.Fprintln(in, list))
		out.Scan()
		return must(strconv.ParseFloat(out.Text(), 64))
	}
}

// used implements service.used.
func (f *fleet) used() map[string]float64 {
	used := f.server.used()
	used["all"] = used["server"]
	for _, ask := range f.ask {
		used["all"] += ask("")
	}
	return used
}

// admitted returns how many requests of one client a fleet lets through within a window: it asks all processes, in
// turn, for more than what all of them could let through.
func admitted(ctx context.Context, kind fleetKind, size int) (n float64) {
	o := new(opening)
	a := startFleet(ctx, o, kind, size, dropped, 1).clients[0]
	for range size * dropperQuota * 5 / 4 {
		a.run(1)
		a.wrong = ""
		if a.w.status == http.StatusOK {
			n++
		}
	}
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
				all.add(row, "admitted", admitted(ctx, kind, size))
			}
			started[row] = startFleet(ctx, o, kind, size, plenty(1), connections)
			services = append(services, service{row, started[row].used})
		}
		ask := func(row string, caller, _ int) error {
			a := started[row].clients[caller]
			a.run(1)
			return a.after(1)
		}
		rotate(ctx, s, services, []load{{"", connections, ask}}, long/time.Duration(len(fleetSizes)), all, progress)
		check(o.close())
	}
	return all
}

// inFleet returns the name of a row.
func inFleet(name string, size int) string { return name + " " + strconv.Itoa(size) }
