// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/remote"
)

// A Ring is the counter of a ring, in one of its processes. It is safe for concurrent use, and is an [engine.Parted]: a
// member that hangs is an outage of its own keys alone.
type Ring struct {
	roster roster
	memory engine.Archive // of the keys that are this process'
	counts counts

	server    *http.Server
	open      atomic.Int64 // connections of others
	stop      context.CancelFunc
	ended     sync.WaitGroup
	closeOnce sync.Once
}

// counts are what Stats tells.
type counts struct {
	own, out, served, foreign atomic.Uint64
}

// Open opens the counter of a ring in this process, listens for the others, and asks once who they are. If nobody
// tells, calls fail until somebody does. It reports all problems of cfg, each a [storeless.ConfigError].
func Open(cfg Config) (*Ring, error) {
	r, err := open(cfg, net.DefaultResolver)
	if err != nil {
		return nil, err
	}
	listener := cfg.Listener
	if listener == nil {
		if listener, err = net.Listen("tcp", r.roster.cfg.Self); err != nil {
			r.stop()
			r.ended.Wait()
			return nil, fmt.Errorf("ring: %w", err)
		}
	}
	r.serve(listener)
	return r, nil
}

// open makes a ring that nobody asks yet.
func open(cfg Config, dns resolver) (*Ring, error) {
	cfg, errs := cfg.withDefaults()
	if _, err := remote.Open([]string{"http://self/"}, remote.Config{Secrets: cfg.Secrets}); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	r := &Ring{memory: memory.New(cfg.Keys, cfg.Now)}
	r.roster.cfg, r.roster.placer, r.roster.dns = cfg, newPlacer(cfg.Secrets[0]), dns
	r.roster.alarms.log, r.roster.alarms.lastListed = cfg.Logger, time.Now()
	handler, err := remote.Serve(asked{r}, remote.Config{Secrets: secretsOf(cfg.Secrets, cfg.Self), Now: cfg.Now, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	r.server = &http.Server{
		Handler: handler, MaxHeaderBytes: 8 << 10,
		ReadTimeout: 10 * time.Second, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 20 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog:  log.New(io.Discard, "", 0), // strangers write it
		ConnState: r.bound,
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	if cfg.Members != nil {
		r.roster.adopt(cfg.Members)
		return r, nil
	}
	r.roster.ask(ctx)
	r.ended.Go(func() { r.roster.follow(ctx) })
	return r, nil
}

// serve answers the others.
func (r *Ring) serve(listener net.Listener) {
	r.ended.Go(func() {
		if err := r.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			r.roster.alarms.deaf(err)
		}
	})
}

// mostOpen is how many connections others hold at most: 16 for each of as many members as there may be. One is a file of
// the program, and 14 KB.
const mostOpen = 16 * maxMembers

// bound ends a connection that is one too many. Who has one keeps it.
func (r *Ring) bound(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if r.open.Add(1) > mostOpen {
			_ = c.Close()
		}
	case http.StateClosed:
		r.open.Add(-1)
	}
}

// Part implements [engine.Parted].
func (r *Ring) Part(call exact.Call) int {
	if call.Policy == nil {
		return 0
	}
	m, err := r.roster.owner(call.Policy, call.Key)
	if err != nil {
		return 0
	}
	return m.part
}

// asks returns who is to be asked for a key: the memory of this process, if that is the owner.
func (r *Ring) asks(policy *exact.Policy, key string) (exact.Counter, error) {
	m, err := r.roster.owner(policy, key)
	switch {
	case err != nil:
		return nil, err
	case m.counter == nil:
		r.counts.own.Add(1)
		return r.memory, nil
	}
	r.counts.out.Add(1)
	return m.counter, nil
}

// Take implements [exact.Counter].
func (r *Ring) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	owner, err := r.asks(call.Policy, call.Key)
	if err != nil {
		return exact.Verdict{}, err
	}
	return owner.Take(ctx, call)
}

// Peek implements [exact.Counter].
func (r *Ring) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	owner, err := r.asks(call.Policy, call.Key)
	if err != nil {
		return exact.Verdict{}, err
	}
	return owner.Peek(ctx, call)
}

// Refund implements [exact.Counter]. Serials of accounts are times: that of an owner which is none any more is good
// for nothing at the next.
func (r *Ring) Refund(ctx context.Context, receipt exact.Receipt) error {
	if receipt.Policy == nil {
		return exact.ErrNoRefund
	}
	owner, err := r.asks(receipt.Policy, receipt.Key)
	if err != nil {
		return err
	}
	return owner.Refund(ctx, receipt)
}

// ChangesOwners says that the account of a key may begin anew elsewhere: package middleware then says in calls what is
// known.
func (r *Ring) ChangesOwners() bool { return true }

// Close leaves the ring: it answers for Config.Linger what others ask, and ends. Calls are no longer for others then,
// so that it comes last when a program ends, after its HTTP server.
func (r *Ring) Close() error {
	r.closeOnce.Do(func() {
		r.roster.alarms.leaves()
		time.Sleep(r.roster.cfg.Linger)
		r.stop()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if r.server.Shutdown(ctx) != nil {
			_ = r.server.Close()
		}
		r.ended.Wait()
		for _, m := range r.roster.list() {
			if m.counter != nil {
				_ = m.counter.Close()
			}
		}
	})
	return nil
}

// asked is what others ask of this process. It decides whatever its own list says of the key: to send a call
// on, or to refuse it, would be an outage for as long as two lists differ.
type asked struct{ r *Ring }

// InProcess says that a call waits for nobody: package remote asks by this name.
func (asked) InProcess() {}

// Take implements [exact.Counter].
func (a asked) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	a.note(call.Policy, call.Key)
	return a.r.memory.Take(ctx, call)
}

// Peek implements [exact.Counter].
func (a asked) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	a.note(call.Policy, call.Key)
	return a.r.memory.Peek(ctx, call)
}

// Refund implements [exact.Counter].
func (a asked) Refund(ctx context.Context, receipt exact.Receipt) error {
	a.note(receipt.Policy, receipt.Key)
	return a.r.memory.Refund(ctx, receipt)
}

// note counts a call, and tells whether its owner by our list is another.
func (a asked) note(policy *exact.Policy, key string) {
	a.r.counts.served.Add(1)
	if m, err := a.r.roster.owner(policy, key); err == nil && m.counter != nil {
		a.r.counts.foreign.Add(1)
		a.r.roster.alarms.differ(a.r.roster.cfg.Self)
	}
}
