// SPDX-License-Identifier: Apache-2.0

package house

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tallystick/tallystick/middleware/peers"
)

// join has an instance hear its peers. It has another address each time that it starts, as in a cluster, and asks DNS for the others.
func (s *Site) join() (listener net.Listener, err error) {
	if listener, err = net.Listen("tcp4", s.cfg.Pod.String()); err != nil {
		return nil, err
	}
	at := addrOf(listener)
	s.wire.open = map[string][]net.Conn{}
	said, err := os.OpenFile(filepath.Join(s.cfg.Keys, at.String()+peersLog), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return listener, err
	}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp4", s.cfg.Resolver)
	}}
	s.group, err = peers.Open(peers.Config{
		DNS: fmt.Sprintf("peers.lab.:%d", at.Port()), Listener: listener, Self: at.String(), Secrets: [][]byte{s.cfg.Secret},
		Dial: s.wire.dial, Now: s.pace, Logger: slog.New(slog.NewJSONHandler(said, nil)),
	})
	return listener, err
}

// pace is the clock of what peers tell each other: it goes on while that of decisions stands, alike on all.
func (s *Site) pace() time.Time { return s.clock().Add(time.Since(s.cfg.Began)) }

// sharing has an instance listen where the one listens that it replaces. 15 is SO_REUSEPORT on Linux.
func sharing(_, _ string, c syscall.RawConn) (err error) {
	failed := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, 15, 1) })
	if failed != nil {
		return failed
	}
	return err
}

// A wire is what an instance has to its peers, until the lab cuts it.
type wire struct {
	mu   sync.Mutex
	cut  []string
	open map[string][]net.Conn
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Contains(w.cut, address) {
		return nil, fmt.Errorf("the lab has cut the wire to %s", address)
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		w.open[address] = append(w.open[address], conn)
	}
	return conn, err
}

// refuse cuts the wires to some addresses, and mends the others.
func (w *wire) refuse(addresses []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = addresses
	for _, a := range addresses {
		for _, conn := range w.open[a] {
			_ = conn.Close()
		}
		delete(w.open, a)
	}
}

// A Line is of the log of an instance about its peers.
type Line struct {
	Time         time.Time
	Code, Member string
	Self         string // where the instance is heard
}

// Lines are all of them that were written, also of instances that are no more.
func (c *Cluster) Lines() (all []Line, err error) {
	files, _ := filepath.Glob(filepath.Join(c.Dir, "*"+peersLog))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(text) {
			l := Line{Self: strings.TrimSuffix(filepath.Base(file), peersLog)}
			if json.Unmarshal(line, &l) == nil { // the last may not be whole
				all = append(all, l)
			}
		}
	}
	return all, nil
}

const peersLog = ".peers"

func addrOf(l net.Listener) (at netip.AddrPort) {
	if l != nil {
		at = netip.MustParseAddrPort(l.Addr().String())
	}
	return at
}
