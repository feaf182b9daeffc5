// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/internal/lab/judge"
	"github.com/tallystick/tallystick/middleware"
	exactcounter "github.com/tallystick/tallystick/middleware/exact"
	exactredis "github.com/tallystick/tallystick/middleware/exact/redis"
)

// settings are what a run is like. The last eight are for tests, which break one thing each.
type settings struct {
	length      time.Duration
	round       time.Duration // at least, so that the machine is not the only pace
	reconfigure time.Duration
	rotate      time.Duration
	progress    func(string)

	wrap       func(*world, http.Handler) http.Handler
	configured func(policy string, c *middleware.Config) // may change what is configured
	byLoad     bool                                      // work never comes first on /busy while it is calm
	life       func() int64                              // of tokens, for rotations
	redis      []string                                  // further arguments of the server
	cycles     int64                                     // how many there are, in place of a length
	slack      int64                                     // added to every bound
	hurry      bool                                      // do not wait long for goroutines that should end
}

// A world is everything that runs.
type world struct {
	set       settings
	clocks    *clocks
	short     *ring // of the policies whose tokens live an hour
	long      *ring // of those whose tokens live for two of the exact routes' windows
	quotas    map[string]*judge.Quotas
	workFirst *judge.Quotas // what workFirst says, which changes as a quota does
	sites     []*site
	redis     *server
	counter   exactcounter.ArchiveCloser
	identity  middleware.IdentityFunc
	book      *book
	ledgers   map[string]*ledger
	outage    judge.Outage
	served    gauge
	trouble   trouble
	client    *http.Client

	configuration int
	hosts         atomic.Uint32
	flooding      atomic.Bool
	touched       atomic.Bool // some clock was wrong by far, two windows ago or less

	quiet, flood phase
	connections  atomic.Int64 // that the instances have

	reconfigured, led, dropped, decisions, explainedTokens atomic.Int64
	steps, kills, hangUps, forged, restless                atomic.Int64
	busy                                                   atomic.Int64 // instances, each time that it is looked at
	atOnce, worked                                         atomic.Int64 // newcomers to /busy that were let in without work, and while it was busy with it
	moved                                                  atomic.Int64 // holders that were sold a tally where their share was used up
	rounds                                                 int64
	floodTime                                              time.Duration
	heap, goroutines                                       judge.Series

	tokenErrors, unjust, excess, broken, lostSlots, unanswered judge.Complaints

	mu   sync.Mutex
	errs []error
}

// A phase is all rounds with a flood, or all without.
type phase struct {
	planned, admitted, rounds atomic.Int64
	took, computed            histogram
}

func (w *world) phase() *phase {
	if w.flooding.Load() {
		return &w.flood
	}
	return &w.quiet
}

// A gauge counts how many are at some place at once.
type gauge struct {
	mu   sync.Mutex
	at   map[string]int64
	most int64
}

func (g *gauge) enter(place string) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.at == nil {
		g.at = map[string]int64{}
	}
	g.at[place]++
	g.most = max(g.most, g.at[place])
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.at[place]--; g.at[place] == 0 {
			delete(g.at, place)
		}
	}
}

// fail notes that the soak could not do what it meant to: then no verdict counts.
func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.errs) < 3 {
		w.errs = append(w.errs, err)
	}
}

// host returns an address that nobody has had.
func (w *world) host() netip.Addr {
	n := w.hosts.Add(1)
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

// openWorld starts all servers.
func openWorld(ctx context.Context, dir string, set settings) (_ *world, err error) {
	w := &world{
		set: set, clocks: newClocks(instances, exactWindow(time.Now())), short: newRing(), long: newRing(), book: newBook(),
		quotas: map[string]*judge.Quotas{}, workFirst: judge.NewQuotas(set.workFirst(0)),
		ledgers: map[string]*ledger{
			paid: newLedger(exactQuota, 0, true),
			open: newLedger(exactQuota, instances*(exactQuota/instances), false),
		},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true}},
	}
	for _, policy := range policies {
		if !exact(policy) {
			w.quotas[policy] = judge.NewQuotas(quotaOf(policy, 0))
		}
	}
	w.book.slack = set.slack
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.identity, err = middleware.ForwardedFor(trusted); err != nil {
		return nil, err
	}
	arguments := set.redis
	if arguments == nil {
		arguments = durable
	}
	if w.redis, err = newServer(dir, arguments); err != nil {
		return nil, err
	}
	if err = w.redis.start(ctx); err != nil {
		return nil, err
	}
	if w.counter, err = exactredis.Open("redis://"+w.redis.addr+"/0", exactredis.Config{}); err != nil {
		return nil, err
	}
	for i := range instances {
		s, err := w.openSite(i)
		if err != nil {
			return nil, fmt.Errorf("instance %d: %w", i, err)
		}
		w.sites = append(w.sites, s)
	}
	return w, nil
}

// close ends everything that openWorld has started.
func (w *world) close() {
	for _, s := range w.sites {
		if err := s.close(); err != nil {
			w.fail(err)
		}
	}
	w.client.CloseIdleConnections()
	if w.counter != nil {
		if err := w.counter.Close(); err != nil {
			w.fail(err)
		}
	}
	if w.redis != nil {
		w.redis.kill()
	}
}

// temporary calls f with a folder that is gone afterwards.
func temporary(f func(dir string) error) error {
	dir, err := os.MkdirTemp("", "tallystick-soak")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return f(dir)
}
