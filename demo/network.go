// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware/peers"
)

// A network is the instances of an arena that hear each other, over pipes of this process.
type network struct {
	doors  map[string]*door
	groups []*peers.Group
	late   atomic.Bool // a peer has not answered in time: the rows without peers hold
}

// openNetwork opens a group for each instance. They hear each other when it returns.
func openNetwork(instances int, now func() time.Time) (*network, error) {
	w := &network{doors: map[string]*door{}, groups: make([]*peers.Group, instances)}
	members, errs := make([]string, instances), make([]error, instances)
	for i := range members {
		members[i] = fmt.Sprintf("10.0.0.%d:9000", i+1)
		w.doors[members[i]] = &door{calls: make(chan net.Conn), closed: make(chan struct{})}
	}
	var opened sync.WaitGroup
	for i, self := range members {
		opened.Go(func() {
			w.groups[i], errs[i] = peers.Open(peers.Config{
				Members: members, Self: self, Secrets: [][]byte{[]byte("an arena has no secrets from its visitors")},
				Listener: w.doors[self], Dial: w.dial, Logger: slog.New(lateness{slog.DiscardHandler, &w.late}), Now: now,
			})
		})
	}
	opened.Wait()
	return w, errors.Join(errs...)
}

func (w *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case w.doors[address].calls <- there:
		return here, nil
	case <-w.doors[address].closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// close ends all groups at once: none of them has anything to tell.
func (w *network) close() {
	if w == nil {
		return
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	var closed sync.WaitGroup
	for _, g := range w.groups {
		closed.Go(func() { _ = g.Close(done) })
	}
	closed.Wait()
}

// A door is where others connect to an instance.
type door struct {
	calls  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Accept implements [net.Listener].
func (d *door) Accept() (net.Conn, error) {
	select {
	case conn := <-d.calls:
		return conn, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (d *door) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

// Addr implements [net.Listener].
func (d *door) Addr() net.Addr { return &net.TCPAddr{} }

// Lateness is a log that notes one line alone.
type lateness struct {
	slog.Handler
	late *atomic.Bool
}

// Enabled implements [slog.Handler].
func (lateness) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements [slog.Handler].
func (l lateness) Handle(context.Context, slog.Record) error {
	l.late.Store(true)
	return nil
}
