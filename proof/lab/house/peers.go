// SPDX-License-Identifier: Apache-2.0

package house

import (
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
	"time"

	"github.com/tallystick/tallystick/middleware/peers"
)

// Hears is how the name of a policy begins that counts with its peers.
const Hears = "peers-"

// peersFile has the addresses of all peers, in lines.
const peersFile = "peers"

// Late is a line of the log: an instance does not hear another one, or starts without its records.
type Late struct {
	Time         time.Time
	Code, Member string
	Self         string // where the instance is heard
}

// A wire is what an instance has to its peers, until the lab cuts it, and what its log says of them.
type wire struct {
	self string
	mu   sync.Mutex
	cut  []string
	open map[string][]net.Conn
	late []Late
}

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

// Write takes a line of the log.
func (w *wire) Write(line []byte) (int, error) {
	said := Late{Self: w.self}
	if err := json.Unmarshal(line, &said); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if said.Code == "peers-late" || said.Code == "peers-alone" {
		w.late = append(w.late, said)
	}
	return len(line), nil
}

// TellPeers writes the list of all peers.
func (c *Cluster) TellPeers() error {
	var list []string
	for _, p := range c.Instances {
		list = append(list, p.Where.Peers.String())
	}
	return Put(filepath.Join(c.Dir, peersFile), strings.Join(list, "\n"))
}

// Cut cuts the wires between the first instances and the others; at 0 it mends all.
func (c *Cluster) Cut(at int) error {
	for i, p := range c.Instances {
		var refused []string
		for j, q := range c.Instances {
			if at > 0 && (i < at) != (j < at) {
				refused = append(refused, q.Where.Peers.String())
			}
		}
		if err := p.Post("cut", "addresses", strings.Join(refused, " ")); err != nil {
			return err
		}
	}
	return nil
}
