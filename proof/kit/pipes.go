// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"net"
	"sync"
)

// Pipes are a listener without a network: in a bubble its clock tells how long a connection lasts. Make them with
// [NewPipes], in the bubble.
type Pipes struct {
	dialed chan net.Conn
	closed chan struct{}
	close  func()
}

// NewPipes returns a listener for one server.
func NewPipes() *Pipes {
	closed := make(chan struct{})
	return &Pipes{make(chan net.Conn), closed, sync.OnceFunc(func() { close(closed) })}
}

// Dial returns a connection once the server accepts it.
func (p *Pipes) Dial() net.Conn {
	here, there := net.Pipe()
	p.dialed <- there
	return here
}

// Accept implements [net.Listener].
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialed:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (p *Pipes) Close() error { p.close(); return nil }

// Addr implements [net.Listener].
func (p *Pipes) Addr() net.Addr { return &net.TCPAddr{} }
