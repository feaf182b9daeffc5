// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/proof/freeport"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/lab/instance"
	"github.com/tallystick/tallystick/proof/lab/site"
)

type result struct {
	row                    row
	sent, admitted, bound  int64
	served, refused, asked int64 // of honest clients
	explained              int64 // refusals of those that had room, where the memory was full
	unjust                 []string
	spent, bought          int64
	most                   int64 // tallies for what was spent
	serverCPU, labCPU      time.Duration
	grown                  int64 // bytes of the largest heap
}

// holds reports whether all that is promised was kept.
func (r *result) holds() bool { return r.admitted <= r.bound && len(r.unjust) == 0 }

// A lab plays rows on one cluster.
type lab struct {
	ctx      context.Context
	cluster  *house.Cluster
	scale    scale
	counters map[string]func() // ends those of exact routes, by the names of the rows
}

// openLab starts the instances for some rows.
func openLab(ctx context.Context, dir, program string, sc scale, all []row) (*lab, error) {
	l := &lab{ctx: ctx, scale: sc, counters: map[string]func(){}}
	secret := []byte("a secret that the lab shares with nobody")
	serves := instance.Config{
		Now: time.Now().Truncate(window*time.Second).Unix() + 60, Secret: secret, Policies: []string{filepath.Join(dir, "policies.json")}, Counters: map[string]string{},
	}
	ring, err := apart(sc.instances)
	if err != nil {
		return nil, err
	}
	there := route{Quota: 1000, Work: leastWork, Crowd: 8, MaxClients: 4096, Instances: int64(sc.instances)}
	policies := map[string]any{elsewhere: there.policy(elsewhere, "")}
	for _, r := range all {
		counter := r.counter
		switch counter {
		case theRing:
			serves.Counters[theRing] = ringPrefix + strings.Join(ring, ",")
		case theLab: // which all instances share, served over HTTP by the lab
			counter = r.name
			owner, err := remote.Serve(memory.New(0, nil), remote.Config{Secrets: [][]byte{secret}})
			if err != nil {
				return nil, errors.Join(err, l.close())
			}
			server := httptest.NewServer(owner)
			l.counters[r.name] = sync.OnceFunc(func() {
				server.CloseClientConnections()
				server.Close()
			})
			serves.Counters[r.name] = server.URL + "/"
		}
		policies[r.name] = r.routeOf(sc).policy(r.name, counter)
	}
	err = house.Configure(dir, "policies.json", "secrets", string(secret), policies)
	if err == nil {
		l.cluster, err = house.Start(ctx, house.Plan{Dir: dir, Program: program, Size: sc.instances, Site: serves})
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// apart returns addresses at which nobody listens.
func apart(n int) (addresses []string, err error) {
	for len(addresses) < n {
		port, err := freeport.Find()
		if err != nil {
			return nil, err
		}
		if at := "127.0.0.1:" + port; !slices.Contains(addresses, at) {
			addresses = append(addresses, at)
		}
	}
	return addresses, nil
}

// close ends all.
func (l *lab) close() error {
	for _, stop := range l.counters {
		stop()
	}
	if l.cluster == nil {
		return nil
	}
	return l.cluster.Stop()
}

// play plays one row.
func (l *lab) play(r row, number int) (*result, error) {
	route := r.routeOf(l.scale)
	s := &scene{
		ctx: l.ctx, row: r.name, cluster: l.cluster, route: route, scale: l.scale, block: byte(16 + number), counter: l.counters[r.name],
		oracle: newOracle(route),
	}
	s.front = sync.OnceValue(func() *http.Transport { return s.dialer("127.0.0.9") })
	last, err := l.cluster.State()
	if err != nil {
		return nil, err
	}
	own := site.Computed(syscall.RUSAGE_SELF)
	switch r.honest {
	case before:
		s.honestly()
		r.attack(s)
	case after:
		r.attack(s)
		s.honestly()
	default:
		together(func() { r.attack(s) }, s.honestly)
		if r.honest == again {
			s.honestly()
		}
	}
	own = site.Computed(syscall.RUSAGE_SELF) - own
	s.rest()
	end, err := l.cluster.State()
	if err != nil {
		return nil, err
	}
	o, gain := s.oracle, s.gained()
	explained, unjust := o.verdict()
	got := &result{
		row: r, sent: s.sent.Load(), admitted: end.Counts[r.name+instance.Attacker][instance.Admitted], bound: r.bound(s),
		served: o.served, refused: o.refused, asked: o.asked, explained: explained, unjust: unjust,
		spent: gain.Spent, bought: gain.Bought, most: levelOf(s.n(), max(1, route.Crowd), gain.Spent, s.seen.Load()),
		serverCPU: end.CPU - last.CPU, labCPU: own, grown: int64(end.Heap) - int64(last.Heap),
	}
	// A row in which nothing happened would hold whatever the servers do.
	if got.bound > 0 && got.admitted == 0 {
		s.fail(errors.New("the attacker was never let in, which proves nothing"))
	}
	if r.counter == theRing && got.bound > route.Quota && got.admitted <= route.Quota {
		s.fail(errors.New("no second owner let the attacker in, which proves nothing"))
	}
	if got.served == 0 && r.route.MaxClients == 0 { // of a full memory nobody is promised anything
		s.fail(errors.New("no honest client was served, which proves nothing"))
	}
	return got, s.failed()
}

func newOracle(route route) *oracle {
	return &oracle{quota: route.Quota, shared: route.Mode != newcomers, proofs: route.Mode == everyRequest, tallies: map[string]*used{}}
}

// writeTable writes what came of all rows, and after it what was not kept.
func writeTable(w io.Writer, sc scale, results []*result) error {
	fmt.Fprintf(w, "N = %d instances behind nginx, L = %d unless a row says otherwise.\n\n", sc.instances, sc.quota)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "row\tthreats\tclient\tsent\tadmitted\tbound\t\tof formula\twork, W\ttallies\thonest: served\trefused\tasked to work\tunjust\tmemory full\tCPU: servers\tclients\theap grew, KiB")
	for _, r := range results {
		mark := "held"
		if !r.holds() {
			mark = "NOT HELD"
		}
		work, tallies := "", ""
		if r.spent > 0 {
			work, tallies = fmt.Sprint(r.spent/leastWork), fmt.Sprintf("%d of %d", r.bought, r.most)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%d\n",
			r.row.name, r.row.threats, r.row.client, r.sent, r.admitted, r.bound, mark, r.row.formula, work, tallies,
			r.served, r.refused, r.asked, len(r.unjust), r.explained,
			r.serverCPU.Round(time.Millisecond), r.labCPU.Round(time.Millisecond), r.grown>>10)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		if r.admitted > r.bound {
			fmt.Fprintf(w, "\nrow %s: EXCEEDED: admitted %d, at most %d are promised: %s\n", r.row.name, r.admitted, r.bound, r.row.formula)
		}
		if len(r.unjust) > 0 {
			fmt.Fprintf(w, "\nrow %s: %d honest requests refused that had room, the first: %s\n", r.row.name, len(r.unjust), r.unjust[0])
		}
	}
	return nil
}
