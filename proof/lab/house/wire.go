// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// A wire is what an instance has to its peers, until the lab cuts it, and what its log says of them.
type wire struct {
	self string
	mu   sync.Mutex
	cut  []string
	open map[string][]net.Conn
	late []Late
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

func addrOf(l net.Listener) (at netip.AddrPort) {
	if l != nil {
		at = netip.MustParseAddrPort(l.Addr().String())
	}
	return at
}
