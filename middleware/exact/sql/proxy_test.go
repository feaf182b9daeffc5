package sql_test

import (
	"io"
	"net"
	"strconv"
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
	cutAfter  int           // cut in the middle, after so many bytes of an answer; 0: do not
	conns     map[net.Conn]bool
}

func startProxy(t testing.TB, port int) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{t: t, listen: l, to: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), conns: make(map[net.Conn]bool)}
	go p.serve(l)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
	})
	return p
}

func (p *proxy) port() int { return p.listen.Addr().(*net.TCPAddr).Port }

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
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.Close()
		}()
		go p.answers(client, server)
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
		delay, swallow, lose, cut := p.delay, p.swallow, p.loseEvery, p.cutAfter
		p.mu.Unlock()
		time.Sleep(delay)
		switch {
		case swallow:
			p.lost.Add(1)
			continue
		case lose > 0 && reads%lose == 0:
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
