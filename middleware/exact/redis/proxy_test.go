package redis_test

import (
	"bytes"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A proxy stands between a counter and its server, and does to answers what a network
// may.
type proxy struct {
	t      testing.TB
	listen net.Listener
	to     string
	lost   atomic.Int64

	mu        sync.Mutex
	delay     time.Duration // before each answer
	swallow   bool          // answers, all of them
	loseEvery int           // after so many reads of answers, cut the connection instead
	loseNext  bool          // cut the connection instead of the answer to the next script, once
	losing    net.Conn      // where that is
	cutAfter  int           // cut in the middle, after so many bytes of an answer; 0: do not
	conns     map[net.Conn]bool
}

func startProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{t: t, listen: l, to: to, conns: make(map[net.Conn]bool)}
	go p.serve(l)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
	})
	return p
}

// behindTLS has the proxy listen with TLS, and returns where.
func (p *proxy) behindTLS(config *tls.Config) (addr string) {
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = l.Close() })
	go p.serve(l)
	return l.Addr().String()
}

func (p *proxy) url() string { return "redis://" + p.listen.Addr().String() + "/0" }

func (p *proxy) set(change func(*proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// cut ends every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

func (p *proxy) serve(listen net.Listener) {
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
		p.set(func(p *proxy) { p.conns[client], p.conns[server] = true, true })
		go p.commands(client, server)
		go p.answers(client, server)
	}
}

// commands carries what the client says.
func (p *proxy) commands(client, server net.Conn) {
	defer server.Close()
	b := make([]byte, 16<<10)
	for {
		n, err := client.Read(b)
		if err != nil {
			return
		}
		if bytes.Contains(b[:n], []byte("EVALSHA")) {
			p.set(func(p *proxy) {
				if p.loseNext {
					p.loseNext, p.losing = false, server
				}
			})
		}
		if _, err := server.Write(b[:n]); err != nil {
			return
		}
	}
}

// answers carries what the server says.
func (p *proxy) answers(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	b := make([]byte, 16<<10)
	for reads := 1; ; reads++ {
		n, err := server.Read(b)
		if err != nil {
			return
		}
		p.mu.Lock()
		delay, swallow, lose, cut, once := p.delay, p.swallow, p.loseEvery, p.cutAfter, p.losing == server
		p.mu.Unlock()
		time.Sleep(delay)
		switch {
		case swallow:
			p.lost.Add(1)
			continue
		case once || lose > 0 && reads%lose == 0:
			p.lost.Add(1)
			return
		case cut > 0 && n > cut:
			p.lost.Add(1)
			_, _ = client.Write(b[:cut])
			return
		}
		if _, err := client.Write(b[:n]); err != nil {
			return
		}
	}
}
