// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware/peers"
	"github.com/tallystick/tallystick/proof/fleet"
)

// A network is the instances of an arena that hear each other, over the loopback interface.
type network struct {
	groups []*peers.Group
	late   atomic.Bool // a peer has not answered in time: the rows without peers hold
}

// openNetwork opens a group for each instance. They hear each other when it returns.
func openNetwork(instances int, now func() time.Time) (*network, error) {
	w := &network{groups: make([]*peers.Group, instances)}
	doors, members, errs := make([]net.Listener, instances), make([]string, instances), make([]error, instances)
	for i := range doors {
		door, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		doors[i], members[i] = door, door.Addr().String()
	}
	var opened sync.WaitGroup
	for i, self := range members {
		opened.Go(func() {
			w.groups[i], errs[i] = peers.Open(peers.Config{
				Members: members, Self: self, Secrets: [][]byte{fleet.Secret}, Listener: doors[i],
				Logger: slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn})), Now: now,
			})
		})
	}
	opened.Wait()
	return w, errors.Join(errs...)
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

// Write notes that a warning was logged.
func (w *network) Write(line []byte) (int, error) {
	w.late.Store(true)
	return len(line), nil
}
