// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware/peers"
)

// join has an instance hear its peers. It has another port each time that it starts, as it has another address in a cluster.
func (s *Site) join() (at netip.AddrPort, err error) {
	listener, err := net.Listen("tcp4", netip.AddrPortFrom(s.cfg.Listen.Addr(), 0).String())
	if err != nil {
		return at, err
	}
	at = addrOf(listener)
	s.wire = wire{self: at.String(), open: map[string][]net.Conn{}}
	s.group, err = peers.Open(peers.Config{
		Listener: listener, Self: s.wire.self, Secrets: [][]byte{s.cfg.Secret}, Dial: s.wire.dial, Now: s.pace,
		Logger: slog.New(slog.NewJSONHandler(&s.wire, nil)),
		Find: func(context.Context) ([]string, error) {
			text, _ := os.ReadFile(filepath.Join(s.cfg.Keys, peersFile)) // the first is there before the list
			return append(strings.Fields(string(text)), s.wire.self), nil
		},
	})
	return at, err
}

// pace is the clock of what peers tell each other: it goes on while that of decisions stands, alike on all.
func (s *Site) pace() time.Time { return s.clock().Add(time.Since(s.cfg.Began)) }
