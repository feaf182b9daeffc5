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
)

// fleets are what a fleet may limit by: which limiter its instances have, and whether clients show
// the tokens that they get.
var fleets = []struct {
	name, limiter string
	echoes        bool
}{
	{none, "bare", false},
	{reference, reference, false},
	{ourName, ourName, true},
	{ourName + "-dropped", ourName, false},
	{"redis_rate", "redis_rate", false},
	{"httprate/redis", "httprate/redis", false},
}

// Sizes of fleets, connections of clients, and the quota that a dropper is measured by.
var fleetSizes = []int{2, 10}

const connections, dropperQuota = 16, 100

// A fleet is some processes, and clients that ask one after the other.
type fleet struct {
	in      []io.Writer // of each process
	out     []*bufio.Scanner
	redis   *redisServer // nil: it needs none
	clients []*asker
}

// startFleet starts one, with clients at addresses of their own.
func startFleet(ctx context.Context, o *opening, limiter string, echoes bool, size, quota, clients int) *fleet {
	f, e := new(fleet), errand{Limiter: limiter, Quota: quota}
	if strings.Contains(limiter, "redis") {
		f.redis = startRedis(o)
		e.Redis = f.redis.addr
	}
	var addresses []string
	for range size {
		c := e.child(ctx)
		in, out := must(c.StdinPipe()), bufio.NewScanner(must(c.StdoutPipe()))
		check(c.Start())
		o.closing(func() error { in.Close(); return c.Wait() })
		f.in, f.out = append(f.in, in), append(f.out, out)
		out.Scan()
		addresses = append(addresses, out.Text())
	}
	for i := range clients {
		a := newAsker(http.MethodPost)
		for k := range addresses {
			a.handlers = append(a.handlers, dial(o, net.IPv4(127, 0, 0, byte(2+i)), addresses[(i+k)%size]))
		}
		if f.clients = append(f.clients, a); echoes {
			a.newestOf(byHeader)
		}
		a.either = true
	}
	return f
}

// used implements service.used.
func (f *fleet) used() map[string]float64 {
	all := 0.0
	for i := range f.in {
		must(io.WriteString(f.in[i], "\n"))
		f.out[i].Scan()
		all += must(strconv.ParseFloat(f.out[i].Text(), 64))
	}
	if f.redis == nil {
		return map[string]float64{"all": all}
	}
	redis := f.redis.processorTime()
	return map[string]float64{"all": all + redis, "redis": redis}
}

// admitted returns how many of a client's requests a fleet lets through, of twice what all of its
// processes together could.
func admitted(ctx context.Context, limiter string, echoes bool, size int) float64 {
	o := new(opening)
	a, n := startFleet(ctx, o, limiter, echoes, size, dropperQuota, 1).clients[0], 0.0
	for range 2 * size * dropperQuota {
		a.run(1)
		a.wrong = ""
		if a.w.status == http.StatusOK {
			n++
		}
	}
	if check(o.close()); echoes {
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
				all.add(row, "admitted", admitted(ctx, kind.limiter, kind.echoes, size))
			}
			f := startFleet(ctx, o, kind.limiter, kind.echoes, size, plenty(1).quota, connections)
			started[row] = f
			services = append(services, service{row, f.used})
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
