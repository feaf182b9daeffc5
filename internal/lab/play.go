// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/tallystick/tallystick/internal/lab/instance"
)

// A result is what came of a row.
type result struct {
	row                    row
	sent, admitted, bound  int64
	served, refused, asked int64 // of the honest crowd
	explained              int64 // refusals of those that had room, where the memory was full
	unjust                 []string
	work                   float64 // in prices of the first tally
	bought                 int64
	serverCPU, labCPU      time.Duration
	heap                   uint64 // of the largest instance
	curve                  []point
	instances              int64
	quota, crowd           int64
}

// holds reports whether all that is promised was kept.
func (r *result) holds() bool { return r.admitted <= r.bound && len(r.unjust) == 0 }

// A lab plays rows on one cluster.
type lab struct {
	cluster *cluster
	site    instance.Config
	scale   scale
}

// openLab starts the instances for some rows.
func openLab(ctx context.Context, dir, program string, sc scale, all []row) (*lab, error) {
	now := time.Now().Truncate(window*time.Second).Unix() + 60
	l := &lab{scale: sc, site: instance.Config{Now: now, Secret: make([]byte, 32), Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/24")}}}
	_, _ = rand.Read(l.site.Secret) // it never fails
	for _, r := range all {
		l.site.Routes = append(l.site.Routes, r.routeOf(sc))
	}
	var err error
	l.cluster, err = startCluster(ctx, dir, program, sc.instances, l.site)
	return l, err
}

// play plays one row.
func (l *lab) play(r row, number int) (*result, error) {
	route := r.routeOf(l.scale)
	s := &scene{
		row: r.name, cluster: l.cluster, site: l.site, route: route, scale: l.scale, block: byte(16 + number),
		oracle: &oracle{
			quota: route.Quota, shared: route.Mode != instance.Newcomers, proofs: route.Mode == instance.EveryRequest,
			tallies: map[string]*used{},
		},
	}
	s.front = sync.OnceValue(func() *http.Transport { return s.dialer(netip.AddrFrom4([4]byte{127, 0, 0, 9})) })
	before, err := l.cluster.state()
	if err != nil {
		return nil, err
	}
	own := cpu()
	if r.cold { // a client beside it would meet a door that is closed
		r.attack(s)
		s.crowd()
	} else {
		together(func() { r.attack(s) }, s.crowd)
	}
	own = cpu() - own
	s.over()
	after, err := l.cluster.state()
	if err != nil {
		return nil, err
	}
	o := s.oracle
	return &result{
		row: r, sent: s.sent.Load(), admitted: after.Counts[r.name+"/attacker"][instance.Admitted], bound: r.bound(s),
		served: o.served, refused: o.refused, asked: o.asked, explained: o.explains, unjust: o.unjust,
		work: float64(s.work.Load()) / leastWork, bought: s.bought.Load(),
		serverCPU: after.CPU - before.CPU, labCPU: own, heap: after.Heap,
		curve: s.curve, instances: s.n(), quota: route.Quota, crowd: route.Crowd,
	}, s.failed()
}

// cpu returns the time that this process has computed for.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
