// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/tallystick/tallystick/internal/chance"
	"github.com/tallystick/tallystick/internal/lab/instance"
)

type result struct {
	row                    row
	sent, admitted, bound  int64
	served, refused, asked int64 // of the honest crowd
	explained              int64 // refusals of those that had room, where the memory was full
	far                    int64 // and of those whose own tally had room, but on other instances
	unjust                 []string
	work                   float64 // in prices of the first tally
	bought                 int64
	serverCPU, labCPU      time.Duration
	most                   int64 // tallies for that work
	grown                  int64 // bytes of the largest heap
	curve                  []point
	instances              int64
	quota, crowd           int64
	worth                  int64 // of an own tally, on all instances
}

// holds reports whether all that is promised was kept.
func (r *result) holds() bool { return r.admitted <= r.bound && len(r.unjust) == 0 }

// A lab plays rows on one cluster.
type lab struct {
	cluster *cluster
	site    instance.Config
	scale   scale

	counters map[string]*counter // by the names of the rows
}

// openLab starts the instances for some rows.
func openLab(ctx context.Context, dir, program string, sc scale, all []row) (*lab, error) {
	now := time.Now().Truncate(window*time.Second).Unix() + 60
	l := &lab{scale: sc, counters: map[string]*counter{}, site: instance.Config{Now: now, Secret: make([]byte, 32), Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/24")}}}
	_, _ = rand.Read(l.site.Secret) // it never fails
	for _, r := range all {
		route := r.routeOf(sc)
		if r.counter {
			c, err := serveCounter(l.site.Secret)
			if err != nil {
				return nil, errors.Join(err, l.close())
			}
			l.counters[r.name], route.Counter = c, c.url
		}
		l.site.Routes = append(l.site.Routes, route)
	}
	there := elsewhere
	there.Instances = int64(sc.instances)
	l.site.Routes = append(l.site.Routes, there)
	var err error
	if l.cluster, err = startCluster(ctx, dir, program, sc.instances, l.site, nil); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// close ends all.
func (l *lab) close() error {
	for _, c := range l.counters {
		c.stop()
	}
	if l.cluster == nil {
		return nil
	}
	return l.cluster.stop()
}

// play plays one row.
func (l *lab) play(r row, number int) (*result, error) {
	route := r.routeOf(l.scale)
	s := &scene{
		row: r.name, cluster: l.cluster, site: l.site, route: route, scale: l.scale, block: byte(16 + number), counter: l.counters[r.name],
		oracle: &oracle{
			quota: route.Quota, shared: route.Mode != instance.Newcomers, proofs: route.Mode == instance.EveryRequest,
			tallies: map[string]*used{}, issuers: map[string]string{},
		},
	}
	if route.Instances > 1 {
		s.oracle.share = chance.Share(route.Quota, route.Instances, 1)
	}
	s.front = sync.OnceValue(func() *http.Transport { return s.dialer(netip.AddrFrom4([4]byte{127, 0, 0, 9})) })
	last, err := l.cluster.state()
	if err != nil {
		return nil, err
	}
	own := cpu()
	switch r.crowd {
	case before:
		s.crowd()
		r.attack(s)
	case after:
		r.attack(s)
		s.crowd()
	default:
		together(func() { r.attack(s) }, s.crowd)
		if r.crowd == again {
			s.crowd()
		}
	}
	own = cpu() - own
	s.over()
	end, err := l.cluster.state()
	if err != nil {
		return nil, err
	}
	o := s.oracle
	explained, unjust := o.verdict()
	got := &result{
		row: r, sent: s.sent.Load(), admitted: end.Counts[r.name+instance.Attacker][instance.Admitted], bound: r.bound(s),
		served: o.served, refused: o.refused, asked: o.asked, explained: explained, far: o.far, unjust: unjust,
		work: float64(s.work.Load()) / leastWork, bought: s.bought.Load(),
		serverCPU: end.CPU - last.CPU, labCPU: own, most: levelOf(s), grown: int64(end.Heap) - int64(last.Heap),
		curve: s.curve, instances: s.n(), quota: route.Quota, crowd: route.Crowd, worth: worthOf(s),
	}
	// A row in which nothing happened would hold whatever the servers do.
	if got.bound > 0 && got.admitted == 0 {
		s.fail(errors.New("the attacker was never let in, which proves nothing"))
	}
	if got.served == 0 && r.route.MaxClients == 0 { // of a full memory nobody is promised anything
		s.fail(errors.New("no honest client was served, which proves nothing"))
	}
	return got, s.failed()
}

// cpu returns the time that this process has computed for.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
