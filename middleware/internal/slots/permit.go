// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"context"
	"net"
	"sync"
	"time"
)

// A Permit is held by a request while it is being served: its slot, and what else ends with it.
type Permit struct {
	once    sync.Once
	release func()
	taken   bool               // over, together with the connection
	ends    time.Time          // of the request; zero: it may go on
	cancel  context.CancelFunc // with ends
	timer   *time.Timer        // of a connection that was taken over
}

// NewPermit returns a permit that is given back by release, which is called once.
func NewPermit(release func()) *Permit { return &Permit{release: release} }

// Also has another release called as well, when the permit is given back.
func (p *Permit) Also(release func()) {
	first := p.release
	p.release = func() {
		first()
		release()
	}
}

// EndAfter ends the returned context after hold, for cause, if the request has not left
// before.
func (p *Permit) EndAfter(ctx context.Context, hold time.Duration, cause error) context.Context {
	p.ends = time.Now().Add(hold)
	ctx, p.cancel = context.WithDeadlineCause(ctx, p.ends, cause)
	return ctx
}

// Done gives the permit back when the handler is done. A connection that was taken over
// keeps it.
func (p *Permit) Done() {
	if p != nil && !p.taken {
		p.leave()
	}
}

func (p *Permit) leave() {
	p.once.Do(func() {
		if p.cancel != nil {
			p.cancel()
		}
		if p.timer != nil {
			p.timer.Stop()
		}
		p.release()
	})
}

// TakenOver has a connection that a handler has hijacked carry the permit on, until it is
// closed. The connection is closed when the request would have ended: the request's context
// ends with the handler, and so cannot do it.
func (p *Permit) TakenOver(conn net.Conn) net.Conn {
	p.taken = true
	held := &heldConn{conn, p}
	if !p.ends.IsZero() {
		p.timer = time.AfterFunc(time.Until(p.ends), func() { _ = held.Close() })
	}
	if half, ok := conn.(closesWrite); ok {
		return heldHalfConn{held, half}
	}
	return held
}

type closesWrite interface{ CloseWrite() error }

// A heldHalfConn can be closed by halves, as connections of TCP and TLS can: ReverseProxy
// does, when one side of an upgraded connection has said all.
type heldHalfConn struct {
	*heldConn
	closesWrite
}

type heldConn struct {
	net.Conn
	permit *Permit
}

// Close implements [net.Conn].
func (c *heldConn) Close() error {
	c.permit.leave()
	return c.Conn.Close()
}
