// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact/ring"
)

// A network is how rings reach each other: by pipes, and by the clocks that they are given.
type network struct {
	at   [maxInstances]string // the addresses of instances
	ways http.Transport

	mu     sync.Mutex
	clocks [maxInstances]time.Duration
	ears   map[string]*ear
	lose   int   // so many answers from now on
	heard  group // who was asked
}

// An ear is a listener without a network.
type ear struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (e *ear) Addr() net.Addr { return &net.TCPAddr{} }

func (e *ear) Close() error {
	e.once.Do(func() { close(e.closed) })
	return nil
}

func (e *ear) Accept() (net.Conn, error) {
	select {
	case c := <-e.conns:
		return c, nil
	case <-e.closed:
		return nil, net.ErrClosed
	}
}

var (
	errGone = errors.New("nobody listens")
	errLost = errors.New("the answer is lost")
)

func (n *network) dial(_ context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	e := n.ears[address]
	n.mu.Unlock()
	if e == nil {
		return nil, errGone
	}
	here, there := net.Pipe()
	e.conns <- there
	return here, nil
}

// RoundTrip is how a ring asks another.
func (n *network) RoundTrip(q *http.Request) (*http.Response, error) {
	resp, err := n.ways.RoundTrip(q)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		return nil, err
	}
	n.heard = n.heard.with(slices.Index(n.at[:], q.URL.Host))
	if n.lose > 0 {
		n.lose--
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return nil, errLost
	}
	return resp, nil
}

func (n *network) addresses(list group) (all []string) {
	for i, a := range n.at {
		if list.has(i) {
			all = append(all, a)
		}
	}
	return all
}

// open opens a ring that has heard a list.
func open(self string, list []string, way http.RoundTripper, l net.Listener, now func() time.Time) *ring.Ring {
	if len(list) == 0 {
		list = []string{self}
	}
	r, err := ring.Open(ring.Config{
		Self: self, Find: func(context.Context) ([]string, error) { return list, nil }, Every: time.Minute, Linger: 1,
		Secrets: secrets, Keys: 1, Listener: l, Transport: way, Logger: slog.New(slog.DiscardHandler), Now: now,
	})
	if err != nil {
		panic(err)
	}
	return r
}

func newEar() *ear { return &ear{conns: make(chan net.Conn), closed: make(chan struct{})} }

// stranger is the address of a ring that is in no other's list.
const stranger = "192.0.2.1:9000"

// clock is that of an instance.
func (n *network) clock(i int) func() time.Time {
	return func() time.Time {
		n.mu.Lock()
		defer n.mu.Unlock()
		return base.Add(n.clocks[i])
	}
}

func (n *network) set(i int, to time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.clocks[i] = to
}
