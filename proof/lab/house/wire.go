// SPDX-License-Identifier: Apache-2.0

package house

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

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
