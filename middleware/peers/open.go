// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/gossip"
)

const (
	aloneAfter    = time.Second            // without a peer that answers
	greetFirst    = 300 * time.Millisecond // all that answer, before the records of one are asked for
	recordsWithin = 5 * time.Second
	farewellAfter = 400 * time.Millisecond // without acknowledgements
)

// Open listens, greets all addresses of the list, and takes over the records of one peer. It returns when requests may be
// served: a second after it has asked, if no list or no peer answers, and then the log says so. It reports all problems of
// cfg, each a [storeless.ConfigError]. Where it cannot listen at Self the error is one of package net.
func Open(cfg Config) (*Group, error) {
	return open(cfg, net.DefaultResolver)
}

func open(cfg Config, dns resolver) (*Group, error) {
	cfg, errs := cfg.withDefaults()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	listener := cfg.Listener
	if listener == nil {
		var err error
		if listener, err = net.Listen("tcp", cfg.listens()); err != nil {
			return nil, fmt.Errorf("peers: Self: must be this process's own entry of the list, on this machine, at a port that no other process has: %w", err)
		}
	}
	cfg.Self = cmp.Or(cfg.Self, ":"+portOf([]string{listener.Addr().String()}))
	g := &Group{
		cfg: cfg, alarms: alarms{log: cfg.Logger, rang: make(map[about]ringing)}, dns: dns, listener: listener,
		wake: make(chan struct{}, 1), news: make(chan struct{}, 1), peers: make(map[uint64]*peer), listedAt: time.Now(), opened: time.Now(),
	}
	g.ctx, g.stop = context.WithCancel(context.Background())
	var name [8]byte
	_, _ = rand.Read(name[:]) // it never fails
	key := derive(cfg.Secrets[0], nil, talliesKey)
	g.ours = hello{version: version, name: binary.BigEndian.Uint64(name[:]) | 1, fingerprint: binary.BigEndian.Uint64(key[16:])}
	g.records = gossip.New(gossip.Config{Name: g.ours.name, Key: [16]byte(key[:16]), Wake: func() { poke(g.wake) }})
	g.ended.Go(g.accept)
	g.ended.Go(g.run)
	if cfg.Members != nil {
		g.adopt(cfg.Members)
	} else {
		g.ask()
		g.ended.Go(g.follow)
	}
	var source *peer
	began := time.Now()
	g.await(g.ctx, func() bool { return g.started(time.Since(began), &source) })
	return g, nil
}

// ask asks for the list. One that does not come leaves the last in force: it names the processes of a moment ago.
func (g *Group) ask() {
	ctx, cancel := context.WithTimeout(g.ctx, time.Second)
	defer cancel()
	find := g.cfg.Find
	if find == nil {
		find = func(ctx context.Context) ([]string, error) { return lookUp(ctx, g.dns, g.cfg.DNS, g.cfg.Self) }
	}
	list, err := find(ctx)
	if err == nil {
		list, err = listOf(list)
	}
	switch {
	case g.ctx.Err() != nil:
	case err != nil:
		g.mu.Lock()
		g.ring(listAwayAlarm, "", "error", err)
		g.unlock()
	default:
		g.adopt(list)
	}
}

// follow asks again and again.
func (g *Group) follow() {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-tick.C:
			g.ask()
		}
	}
}

// adopt takes a list, and greets what is new there.
func (g *Group) adopt(list []string) {
	g.mu.Lock()
	if came, went, changed := g.roster.adopt(list, time.Now()); changed {
		g.ring(membersAlarm, "", "members", len(list), "came", came, "went", went)
	}
	g.unlock()
	g.tend()
}

// started reports whether this process has the records of its fleet, or must do without. Source is the peer that is asked
// for them.
func (g *Group) started(waited time.Duration, source **peer) bool {
	g.mu.Lock()
	defer g.unlock()
	waiting, silent, heard := 0, g.roster.list == nil, false
	for _, t := range g.roster.targets {
		if t.name == 0 && t.err == nil {
			waiting++
		}
		silent = silent || t.name == 0 && t.err != nil
	}
	var ready *peer
	for _, p := range g.peers {
		heard = heard || p.wire != nil
		switch {
		case p.wire == nil:
			silent = true
		case p.theirs == 0:
			waiting++
		case p.ready:
			ready = p
		}
	}
	from := *source
	switch {
	case from != nil && !from.pulling: // it has answered
	case from != nil && from.wire != nil && time.Since(from.heard) < aloneAfter && waited < recordsWithin:
		return false
	case waited >= aloneAfter:
		if from != nil || !heard { // else all that answer are starting too
			g.ring(aloneAlarm, "")
		}
	case waiting > 0 && waited < greetFirst:
		return false
	case ready != nil:
		for _, p := range g.peers {
			p.pulled = p.theirs // each of them tells what it counts from now on
		}
		*source = ready
		g.pull(ready)
		return false
	case waiting > 0 || silent: // else there are no others, or all of them are starting
		return false
	}
	g.records.Ready()
	g.ready = 1
	for _, p := range g.peers {
		if g.say(p, true); p.theirs != p.pulled && !p.pulling { // it came later
			g.pull(p)
		}
	}
	return true
}

// Records is for package middleware.
func (g *Group) Records() *gossip.Records { return g.records }

var errUntold = errors.New("peers: some peers have not acknowledged what this process has admitted")

// Close tells the peers what they have not heard yet, waits for their acknowledgements until ctx ends or for 0.4 s, and
// says farewell. It comes after [http.Server.Shutdown]. Its error says that a peer has not heard all.
func (g *Group) Close(ctx context.Context) error {
	g.once.Do(func() { g.err = g.leave(ctx) })
	return g.err
}

func (g *Group) leave(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, farewellAfter)
	defer cancel()
	g.mu.Lock()
	g.leaving = true
	g.mu.Unlock()
	_ = g.listener.Close()
	g.records.Farewell()
	poke(g.wake)
	if g.await(ctx, g.records.Drained); !g.records.Drained() {
		err = errUntold
	}
	g.mu.Lock()
	g.left = true
	for _, p := range g.peers {
		if p.late {
			err = errUntold
		}
		if p.wire != nil {
			g.post(p.wire, farewellFrame, nil, nil)
		}
	}
	g.unlock()
	g.await(ctx, func() bool { // each closes its end when it has read that
		g.mu.Lock()
		defer g.mu.Unlock()
		return !slices.ContainsFunc(slices.Collect(maps.Values(g.peers)), func(p *peer) bool { return p.wire != nil && !p.late })
	})
	g.stop()
	g.mu.Lock()
	for _, conn := range g.unknown {
		if conn != nil {
			_ = conn.Close()
		}
	}
	for _, p := range g.peers {
		g.forget(p)
	}
	g.mu.Unlock()
	g.ended.Wait()
	return err
}

// await waits until something is so. It looks whenever there is news, and at times.
func (g *Group) await(ctx context.Context, so func() bool) {
	for !so() {
		select {
		case <-ctx.Done():
			return
		case <-g.news:
		case <-time.After(tendEvery / 5):
		}
	}
}
