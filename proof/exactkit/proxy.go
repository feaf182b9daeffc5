// SPDX-License-Identifier: Apache-2.0

package exactkit

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallystick/tallystick/proof/kit"
)

// Ways are what a Proxy does to answers. The zero Ways pass them on.
type Ways struct {
	Delay     time.Duration // before each answer
	Swallow   bool          // answers, all of them
	LoseEvery int           // after this many reads of answers, cut the connection instead
	CutAfter  int           // cut in the middle, after this many bytes of an answer
}

// A Proxy stands between a counter and its server, and does to answers what a network may.
type Proxy struct {
	Lost atomic.Int64 // answers

	t      testing.TB
	listen net.Listener
	to     string

	mu     sync.Mutex
	ways   Ways
	marked []byte   // the answer to the next request with it is lost, once
	losing net.Conn // where that is
	conns  map[net.Conn]bool
}

// StartProxy starts one in front of the server at to.
func StartProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l := kit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &Proxy{t: t, listen: l, to: to, conns: make(map[net.Conn]bool)}
	p.serve(l)
	t.Cleanup(p.Cut)
	return p
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() *net.TCPAddr { return p.listen.Addr().(*net.TCPAddr) }

// BehindTLS has the proxy listen with TLS too, and returns where.
func (p *Proxy) BehindTLS(config *tls.Config) (addr string) {
	l := kit.Must(tls.Listen("tcp", "127.0.0.1:0", config))(p.t)
	p.serve(l)
	return l.Addr().String()
}

// Set changes what is done to answers from now on, on all connections.
func (p *Proxy) Set(w Ways) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ways = w
}

// LoseNext loses the answer to the next request that contains marked, with its connection.
func (p *Proxy) LoseNext(marked string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marked = []byte(marked)
}

// Cut ends every connection.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

func (p *Proxy) serve(listen net.Listener) {
	p.t.Cleanup(func() { _ = listen.Close() })
	go func() {
		for {
			client, err := listen.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", p.to)
			if err != nil {
				_ = client.Close()
				continue
			}
			p.mu.Lock()
			p.conns[client], p.conns[server] = true, true
			p.mu.Unlock()
			go p.requests(client, server)
			go p.answers(client, server)
		}
	}()
}

// requests carries what the client says.
func (p *Proxy) requests(client, server net.Conn) {
	defer server.Close()
	_, _ = io.Copy(writer(func(b []byte) (int, error) {
		p.mu.Lock()
		if len(p.marked) > 0 && bytes.Contains(b, p.marked) {
			p.marked, p.losing = nil, server
		}
		p.mu.Unlock()
		return server.Write(b)
	}), client)
}

// A writer is a function that writes.
type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// answers carries what the server says.
func (p *Proxy) answers(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	b := make([]byte, 16<<10)
	for reads := 1; ; reads++ {
		n, err := server.Read(b)
		if err != nil {
			return
		}
		p.mu.Lock()
		ways, once := p.ways, p.losing == server
		p.mu.Unlock()
		time.Sleep(ways.Delay)
		switch {
		case ways.Swallow:
			p.Lost.Add(1)
			continue
		case once || ways.LoseEvery > 0 && reads%ways.LoseEvery == 0:
			p.Lost.Add(1)
			return
		case ways.CutAfter > 0 && n > ways.CutAfter:
			p.Lost.Add(1)
			_, _ = client.Write(b[:ways.CutAfter])
			return
		}
		if _, err := client.Write(b[:n]); err != nil {
			return
		}
	}
}
