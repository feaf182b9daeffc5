// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
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
	said, err := os.OpenFile(filepath.Join(s.cfg.Dir, at.String()+peersLog), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
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

// pace is the clock of what peers tell each other: it goes on, alike on all, while the clock of decisions stands.
func (s *Site) pace() time.Time { return s.clock().Add(time.Since(s.cfg.Began)) }

// sharing has an instance listen where the one listens that it replaces. 15 is SO_REUSEPORT on Linux.
func sharing(_, _ string, c syscall.RawConn) (err error) {
	failed := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, 15, 1) })
	if failed != nil {
		return failed
	}
	return err
}
