// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/tallystick/tallystick/internal/peers"
	"github.com/tallystick/tallystick/internal/peers/markdown"
)

// above is what a round trip takes more than one to the handler alone.
func (r *results) above(unit, name string) triple {
	return r.over(unit, func(x []float64) float64 { return x[0] - x[1] },
		player(peers.RoundTrip, name), player(peers.RoundTrip, peers.None))
}

// aboves is how many times what another takes above the handler that is.
func (r *results) aboves(unit, name, other string) triple {
	return r.over(unit, func(x []float64) float64 { return (x[0] - x[1]) / (x[2] - x[1]) },
		player(peers.RoundTrip, name), player(peers.RoundTrip, peers.None), player(peers.RoundTrip, other))
}

// tripTable is what a request costs where it is served for real.
func tripTable(r *results, head string) string {
	text := head + ".\n" + r.meanwhile(peers.RoundTrip) + "\n" +
		fmt.Sprintf("In brackets the least and the most of the %d groups of slices.", r.groups(peers.RoundTrip))
	t := markdown.New("", text, "limiter", "p10, µs", "above `none`, µs", "× httprate's", "× throttled's", "mean, µs", "above `none`, mean, µs", "× httprate's, mean")
	any := false
	for _, name := range r.values(peers.RoundTrip, "player") {
		any = true
		id := player(peers.RoundTrip, name)
		cells := []string{"`" + name + "`", dash(r.plain(tenth, id).median*1e6, "%.1f"), "", "", "", dash(r.plain(cpu, id).median*1e6, "%.1f")}
		if name != peers.None {
			cells[2], cells[3], cells[4] = r.above(tenth, name).micros(), r.aboves(tenth, name, reference).String(), r.aboves(tenth, name, "throttled").String()
			cells = append(cells, r.above(cpu, name).micros(), r.aboves(cpu, name, reference).String())
		}
		t.Row(cells...)
	}
	if !any {
		return ""
	}
	return t.String()
}

// coreTable is what requests of many clients, and of one, take on several processors.
func coreTable(r *results, head string) string {
	t := markdown.New("", head+".\n"+r.meanwhile(peers.Identities)+"\n"+
		fmt.Sprintf("In brackets the least and the most of the %d groups of slices.", r.groups(peers.Identities)),
		"limiter", "clients", "processors", "on one, ns", "on all of them, ns", "faster", "processor time, × on one", "× httprate", "× throttled", "× httprate, median slice")
	any := false
	for _, clients := range r.identities() {
		for _, id := range r.order {
			name, found := cutPlayer(id.name, peers.Identities)
			limiter, of, _ := strings.Cut(name, "/clients=")
			if !found || of != fmt.Sprint(clients) || id.cores == 1 {
				continue
			}
			any = true
			h, throttled := r.sharer(reference, clients, id.cores), r.sharer("throttled", clients, id.cores)
			one := r.sharer(limiter, clients, 1)
			t.Row("`"+limiter+"`", thousands(float64(clients)), fmt.Sprint(id.cores), r.plain(tenthWall, one).nanos(), r.plain(tenthWall, id).nanos(),
				r.times(tenthWall, one, id).String(), r.times(tenth, id, one).String(), r.times(tenthWall, id, h).String(), r.times(tenthWall, id, throttled).String(), r.times(halfWall, id, h).String())
		}
	}
	if !any {
		return ""
	}
	return t.String()
}

// sharer returns what is measured of a limiter that processors share.
func (r *results) sharer(limiter string, clients, cores int) target {
	id := player(peers.Identities, peers.Identity(limiter, clients))
	id.cores = cores
	return id
}

// identities returns how many clients shared limiters had.
func (r *results) identities() []int {
	return r.clients(peers.Identities+"/", 1)
}
