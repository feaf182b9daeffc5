// SPDX-License-Identifier: Apache-2.0

package exactkit

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/kit"
)

// A failing counter answers twenty calls, the third of them too late, and then waits for its fault. While that
// lasts it counts every other call, without an answer.
type failing struct {
	exact.Counter
	calls, mute    atomic.Int64
	struck, healed chan struct{}
}

func (c *failing) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	n := c.calls.Add(1)
	if n <= 20 {
		v, err := c.Counter.Take(ctx, call)
		if n == 3 {
			err = exact.ErrMaybeCounted
		}
		return v, err
	}
	<-c.struck
	select {
	case <-c.healed:
		return c.Counter.Take(ctx, call)
	default:
	}
	c.mute.Add(1)
	if n%2 == 0 {
		if _, err := c.Counter.Take(ctx, call); err != nil {
			return exact.Verdict{}, err
		}
	}
	return exact.Verdict{}, exact.ErrMaybeCounted
}

func TestAmidALoad(t *testing.T) {
	c := &failing{Counter: memory.New(100, time.Now), struck: make(chan struct{}), healed: make(chan struct{})}
	fault := Fault{Name: "mute", Strike: func() { close(c.struck) }, Heal: func() { close(c.healed) }}
	AmidALoad(t, []Fault{fault}, Patient, func(*testing.T) exact.Counter { return c })
	require.EqualValues(t, callers, c.mute.Load(), "each caller met the fault, once")
}

// echo starts a server that answers with what it is told.
func echo(t *testing.T) (addr string) {
	l := kit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

// said is what comes back through the proxy, until the connection ends or as much as was
// said has come.
func hear(t *testing.T, c net.Conn, what string) string {
	kit.Must(io.WriteString(c, what))(t)
	b := make([]byte, len(what))
	n, _ := io.ReadFull(c, b)
	return string(b[:n])
}

func TestProxy(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*Proxy)
		want []string // the answers to "ping", one after another
		lost int64
	}{
		"passes on":         {func(*Proxy) {}, []string{"ping", "ping"}, 0},
		"cuts in an answer": {func(p *Proxy) { p.Set(Ways{CutAfter: 2}) }, []string{"pi"}, 1},
		"loses the second":  {func(p *Proxy) { p.Set(Ways{LoseEvery: 2}) }, []string{"ping", ""}, 1},
		"loses what is marked": {func(p *Proxy) {
			p.LoseNext("in")
		}, []string{""}, 1},
		"loses no other": {func(p *Proxy) { p.LoseNext("pong") }, []string{"ping", "ping"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := StartProxy(t, echo(t))
			test.do(p)
			c := kit.Must(net.Dial("tcp", p.Addr().String()))(t)
			defer c.Close()
			for _, want := range test.want {
				require.Equal(t, want, hear(t, c, "ping"))
			}
			require.Equal(t, test.lost, p.Lost.Load())
		})
	}
}

// A swallowed answer leaves the connection; a caller that waits for it is released by Cut, and what
// comes after the fault is passed on again.
func TestProxySwallows(t *testing.T) {
	p := StartProxy(t, echo(t))
	faults := OfAServer(p, nil, nil, nil, nil)[:2]
	require.Len(t, faults, 2)
	for _, f := range faults {
		f.Strike()
		before := p.Lost.Load()
		c := kit.Must(net.Dial("tcp", p.Addr().String()))(t)
		released := make(chan string)
		go func() {
			b, _ := io.ReadAll(c)
			released <- string(b)
		}()
		kit.Must(io.WriteString(c, "ping"))(t)
		require.Eventually(t, func() bool { return p.Lost.Load() > before }, Patient, time.Millisecond, f.Name)
		f.Heal()
		require.NotEqual(t, "ping", <-released, f.Name)
		require.NoError(t, c.Close())

		c = kit.Must(net.Dial("tcp", p.Addr().String()))(t)
		require.Equal(t, "ping", hear(t, c, "ping"), f.Name)
		require.NoError(t, c.Close())
	}
}
