// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
)

// A Version of HTTP, over TCP without TLS.
type Version int

// The versions that are measured.
const (
	HTTP1 Version = 1
	HTTP2 Version = 2
)

// A link is a client on one connection.
type link interface {
	// ask sends the i-th request and reads past the answer.
	ask(i int) error

	// read is ask, and returns what was answered.
	read(i int) (header http.Header, body string, err error)

	// last reports what was wrong with the last answer that ask has read.
	last() error

	// bytes returns how many a request and, on average, an answer have.
	bytes() (request, answer float64)
}

// A seat is the server of a shape and the one client that it has.
type seat struct {
	link
	shape       *Shape
	server      *http.Server
	conn        net.Conn
	connections atomic.Int64
	next        int
}

// sit starts the server of a shape, and holds an answer of each kind against the shape.
func sit(s *Shape, v Version) (*seat, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &seat{shape: s}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(v == HTTP1)
	protocols.SetUnencryptedHTTP2(v == HTTP2)
	t.server = &http.Server{Handler: s.handler(), Protocols: protocols, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			t.connections.Add(1)
		}
	}}
	go func() { _ = t.server.Serve(listener) }() // it ends with close
	if err := t.connect(listener.Addr().String(), v); err != nil {
		t.close()
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return t, nil
}

func (t *seat) connect(address string, v Version) (err error) {
	if t.conn, err = net.Dial("tcp", address); err != nil {
		return err
	}
	link := newOne
	if v == HTTP2 {
		link = newTwo
	}
	if t.link, err = link(t.conn, t.shape); err != nil {
		return err
	}
	for i := range different {
		if err := t.audit(i); err != nil {
			return err
		}
	}
	return nil
}

// audit holds an answer against the shape. Whether the request was that of the shape is told
// by its status.
func (t *seat) audit(i int) error {
	header, got, err := t.read(i)
	if err != nil {
		return err
	}
	if len(got) != len(body) {
		return fmt.Errorf("answered %d bytes of body", len(got))
	}
	for k := range t.shape.Answers {
		f := &t.shape.Answers[k]
		if !slices.Equal(header[f.Name], []string{f.value(i)}) {
			return fmt.Errorf("answered %s: %q, want %q", f.Name, header[f.Name], f.value(i))
		}
	}
	return t.last()
}

// send sends n requests, one after the other.
func (t *seat) send(n int) error {
	for range n {
		if err := t.ask(t.next % different); err != nil {
			return fmt.Errorf("%s: %w", t.shape.Name, err)
		}
		t.next++
	}
	if err := t.last(); err != nil {
		return fmt.Errorf("%s: %w", t.shape.Name, err)
	}
	if n := t.connections.Load(); n != 1 {
		return fmt.Errorf("%s: %d connections, not one that is kept", t.shape.Name, n)
	}
	return nil
}

func (t *seat) close() {
	if t.conn != nil {
		_ = t.conn.Close()
	}
	_ = t.server.Close()
}
