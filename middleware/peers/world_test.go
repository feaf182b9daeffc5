// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/gossip"
)

var secrets = [][]byte{bytes.Repeat([]byte{7}, 32)}

// A text is written by several.
type text struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *text) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *text) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// A world is a network in a bubble. Like TCP it loses nothing: what is cut comes later.
type world struct {
	t     *testing.T
	delay atomic.Int64 // of each 4 KB
	dns   zone

	mu      sync.Mutex
	changed chan struct{} // closed when a cut is
	cuts    map[[2]string]bool
	hosts   map[string]chan net.Conn // those that listen
	conns   map[net.Conn][2]string   // those that are open, by the end that dialed
	dials   int                      // that were answered
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, changed: make(chan struct{}), cuts: map[[2]string]bool{}, hosts: map[string]chan net.Conn{}, conns: map[net.Conn][2]string{}}
	w.delay.Store(int64(time.Millisecond))
	t.Cleanup(func() {
		w.cut(nil)
		time.Sleep(time.Second) // until what closes is closed
	})
	return w
}

// A zone is DNS.
type zone struct {
	ips     atomic.Pointer[[]string]
	srv     []*net.SRV
	network atomic.Value
}

func (z *zone) LookupNetIP(_ context.Context, network, host string) (ips []netip.Addr, err error) {
	z.network.Store(network)
	list := z.ips.Load()
	if list == nil || host != "tally.internal" {
		return nil, errors.New("no such host")
	}
	for _, ip := range *list {
		ips = append(ips, netip.MustParseAddr(ip))
	}
	return ips, nil
}

func (z *zone) LookupSRV(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
	if service+proto != "" || name != "_peers._tcp.tally.internal" {
		return "", nil, errors.New("no such host")
	}
	return name, z.srv, nil
}

func (z *zone) says(ips ...string) { z.ips.Store(&ips) }

// cut has the network carry nothing between these, and everything else.
func (w *world) cut(pairs map[[2]string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cuts = pairs
	close(w.changed)
	w.changed = make(chan struct{})
}

// away returns the cuts of one host from some others.
func away(one string, others ...string) map[[2]string]bool {
	pairs := map[[2]string]bool{}
	for _, other := range others {
		pairs[[2]string{one, other}], pairs[[2]string{other, one}] = true, true
	}
	return pairs
}

// passes waits until the network carries.
func (w *world) passes(ctx context.Context, from, to string) error {
	for {
		w.mu.Lock()
		cut, changed := w.cuts[[2]string{from, to}], w.changed
		w.mu.Unlock()
		if !cut {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// An end is one end of a connection.
type end struct {
	net.Conn
	here, there string
}

func (e end) LocalAddr() net.Addr  { return addr(e.here) }
func (e end) RemoteAddr() net.Addr { return addr(e.there) }

func addr(s string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }

// dial returns what a host dials with.
func (w *world) dial(from string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, to string) (net.Conn, error) {
		if err := w.passes(ctx, from, to); err != nil {
			return nil, err
		}
		time.Sleep(time.Duration(w.delay.Load()))
		w.mu.Lock()
		accept := w.hosts[to]
		w.mu.Unlock()
		if accept == nil {
			return nil, errors.New("connection refused")
		}
		here, a := net.Pipe()
		b, there := net.Pipe()
		go w.carry(a, b, from, to)
		go w.carry(b, a, to, from)
		w.mu.Lock()
		w.conns[a] = [2]string{from, to}
		w.dials++
		w.mu.Unlock()
		select {
		case accept <- end{there, to, from}:
			return end{here, from, to}, nil
		case <-ctx.Done():
			_ = here.Close()
			return nil, ctx.Err()
		}
	}
}

// carry carries what one writes, a little later, as a network with some room does.
func (w *world) carry(from, to net.Conn, a, b string) {
	room := make(chan []byte, 64)
	go func() {
		defer close(room)
		for {
			p := make([]byte, 4096)
			n, err := from.Read(p)
			if err != nil {
				return
			}
			room <- p[:n]
		}
	}()
	for p := range room {
		_ = w.passes(context.Background(), a, b)
		time.Sleep(time.Duration(w.delay.Load()))
		if _, err := to.Write(p); err != nil {
			_ = from.Close()
		}
	}
	_ = w.passes(context.Background(), a, b)
	time.Sleep(time.Duration(w.delay.Load()))
	_, _ = to.Close(), from.Close()
	w.mu.Lock()
	delete(w.conns, from)
	w.mu.Unlock()
}

// open returns how many connections there are.
func (w *world) open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.conns)
}

// break breaks all connections between two hosts.
func (w *world) breaks(a, b string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c, pair := range w.conns {
		if pair == [2]string{a, b} || pair == [2]string{b, a} {
			_ = c.Close()
		}
	}
}

// A host listens.
type host struct {
	w       *world
	address string
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (w *world) listen(address string) *host {
	h := &host{w: w, address: address, conns: make(chan net.Conn), closed: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[address] = h.conns
	return h
}

func (h *host) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *host) Close() error {
	h.once.Do(func() {
		h.w.mu.Lock()
		defer h.w.mu.Unlock()
		if h.w.hosts[h.address] == h.conns {
			delete(h.w.hosts, h.address)
		}
		close(h.closed)
	})
	return nil
}

func (h *host) Addr() net.Addr { return addr(h.address) }

// A member is a process of the world.
type member struct {
	*Group
	address string
	log     *text
	took    time.Duration // to open
}

func (w *world) start(address string, change ...func(*Config)) *member {
	m := &member{address: address, log: new(text)}
	cfg := Config{Self: address, Secrets: secrets, Listener: w.listen(address), Dial: w.dial(address), Logger: slog.New(slog.NewTextHandler(m.log, nil))}
	for _, c := range change {
		c(&cfg)
	}
	began := time.Now()
	g, err := open(cfg, &w.dns)
	require.NoError(w.t, err)
	m.Group, m.took = g, time.Since(began)
	return m
}

// counted is the limit that the members of the world count.
func counted() gossip.Limit {
	return gossip.Limit{Key: 1, Seconds: 1 << 30, Number: uint32(time.Now().Unix() >> 30)}
}

// add admits n; a request then waits until the others have heard of it.
func (m *member) add(n int64) {
	m.records.Add(time.Now(), counted(), n, 1)
	if freed, ok := m.records.Wait(counted(), 1); ok {
		m.records.Left(counted(), freed)
	}
}

// sum returns what all have admitted, as far as a member knows.
func (m *member) sum() int { return int(m.records.Look(counted(), 1e6).Sum) }

// fleet starts some processes at once.
func (w *world) fleet(list ...string) []*member {
	all := make([]*member, len(list))
	var group sync.WaitGroup
	for i, address := range list {
		group.Go(func() { all[i] = w.start(address, members(list...)) })
	}
	group.Wait()
	return all
}

func members(list ...string) func(*Config) { return func(c *Config) { c.Members = list } }

// kill ends a process without a word.
func (w *world) kill(m *member) {
	m.stop() // it meets no other from now on
	m.mu.Lock()
	m.leaving = true
	for _, p := range m.peers {
		if p.wire != nil {
			p.wire.close()
		}
	}
	m.mu.Unlock()
	_ = m.listener.Close()
	m.ended.Wait()
}

func closeAll(all ...*member) {
	var group sync.WaitGroup
	for _, m := range all {
		group.Go(func() { _ = m.Close(context.Background()) })
	}
	group.Wait()
}
