// SPDX-License-Identifier: Apache-2.0

package house

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Names are the DNS of a cluster, as Kubernetes has it for a headless Service. The server of the cluster has the pods that are ready,
// and none that is terminating; with publishNotReadyAddresses it has all that are there. The cache of each node keeps an answer,
// and for a sixth of that time that there is none: NodeLocal DNSCache does so for 30 s and 5 s, and the CoreDNS of kubeadm for 30 s.
type Names struct {
	mu        sync.Mutex
	published bool
	cached    time.Duration
	pods      map[netip.Addr]bool // whether it is ready; it is not when it is terminating
	nodes     [3]struct {
		net.PacketConn
		kept []netip.Addr
		at   time.Time
	}
}

func serveNames() (n *Names, err error) {
	n = &Names{pods: map[netip.Addr]bool{}}
	for i := range n.nodes {
		if n.nodes[i].PacketConn, err = net.ListenPacket("udp4", "127.0.0.1:0"); err != nil {
			return nil, err
		}
		go n.serve(i)
	}
	return n, nil
}

func (n *Names) close() {
	for i := range n.nodes {
		_ = n.nodes[i].Close()
	}
}

// Keep says for how long nodes keep an answer from now on, and whether publishNotReadyAddresses is set. They have asked just now.
func (n *Names) Keep(cached time.Duration, published bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cached, n.published = cached, published
	for i := range n.nodes {
		n.ask(i)
	}
}

func (n *Names) set(pod netip.Addr, ready bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods[pod] = ready
}

func (n *Names) gone(pod netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.pods, pod)
}

// node is where the instance of a place asks.
func (n *Names) node(place int) string { return n.nodes[place%len(n.nodes)].LocalAddr().String() }

func (n *Names) serve(node int) {
	query := make([]byte, 512)
	for {
		size, from, err := n.nodes[node].ReadFrom(query)
		if err != nil {
			return
		}
		if name := bytes.IndexByte(query[min(12, size):size], 0); name >= 0 && 12+name+5 <= size {
			_, _ = n.nodes[node].WriteTo(answerOf(query[:12+name+5], n.look(node)), from)
		}
	}
}

// look is what a node knows.
func (n *Names) look(node int) []netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	c, keep := &n.nodes[node], n.cached
	if c.kept == nil {
		keep /= 6
	}
	if time.Since(c.at) >= keep {
		n.ask(node)
	}
	return c.kept
}

func (n *Names) ask(node int) {
	c := &n.nodes[node]
	c.at, c.kept = time.Now(), nil
	for pod, ready := range n.pods {
		if ready || n.published {
			c.kept = append(c.kept, pod)
		}
	}
}

// answerOf answers a question with addresses, as RFC 1035, section 4, has it; or that there is no such name.
func answerOf(question []byte, pods []netip.Addr) []byte {
	flags := uint16(0x8580) // a response with authority, recursion desired and available
	if len(pods) == 0 {
		flags |= 3
	}
	b := bytes.Clone(question)
	binary.BigEndian.PutUint16(b[2:], flags)
	binary.BigEndian.PutUint16(b[4:], 1)
	binary.BigEndian.PutUint16(b[6:], uint16(len(pods)))
	binary.BigEndian.PutUint32(b[8:], 0)
	for _, pod := range pods {
		b = append(b, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4) // the name of the question, A, IN, 5 s, 4 bytes
		b = append(b, pod.AsSlice()...)
	}
	return b
}

// A wire connects an instance to its peers, until the lab cuts it.
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

const peersLog = ".peers"

func addrOf(l net.Listener) netip.AddrPort { return netip.MustParseAddrPort(l.Addr().String()) }

// sharing has an instance listen where the one listens that it replaces. 15 is SO_REUSEPORT on Linux.
func sharing(_, _ string, c syscall.RawConn) (err error) {
	failed := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, 15, 1) })
	if failed != nil {
		return failed
	}
	return err
}
