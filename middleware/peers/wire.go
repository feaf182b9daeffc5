// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// silence is how long a peer may say nothing, or read nothing, before its connection ends.
const silence = 10 * time.Second

// mostQueued is how much may wait to be written to one peer. A peer that reads has at most a batch, an answer, a chunk
// and some small frames there.
const mostQueued = 8 * mostLen

// A wire is a connection whose other end has shown a secret. One goroutine reads it and one writes: else two processes
// that write to each other could wait for each other.
type wire struct {
	*session
	conn   net.Conn // below TLS, so that to close it waits for nothing
	dialed bool     // by this process
	r      *bufio.Reader
	buf    []byte // of the frame that was read last
	w      net.Conn

	mu     sync.Mutex
	queue  []byte // signed frames
	poke   chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newWire(s *session, conn, secured net.Conn, dialed bool) *wire {
	return &wire{session: s, conn: conn, dialed: dialed, r: bufio.NewReader(secured), w: secured, poke: make(chan struct{}, 1), closed: make(chan struct{})}
}

// read returns the next frame, whose content is good until the next call.
func (w *wire) read() (kind byte, content []byte, err error) { return w.in.read(w.r, &w.buf) }

// send has a frame written.
func (w *wire) send(kind byte, head, content []byte) {
	w.mu.Lock()
	w.queue = w.out.append(w.queue, kind, head, content)
	full := len(w.queue) > mostQueued
	w.mu.Unlock()
	if full { // it asks, and does not read the answers
		w.close()
	}
	poke(w.poke)
}

// write writes what is sent, until the wire is closed.
func (w *wire) write() {
	defer w.close()
	var b []byte
	for {
		select {
		case <-w.closed:
			return
		case <-w.poke:
		}
		w.mu.Lock()
		b, w.queue = w.queue, b[:0]
		w.mu.Unlock()
		_ = w.w.SetWriteDeadline(time.Now().Add(silence))
		if _, err := w.w.Write(b); err != nil {
			return
		}
	}
}

func (w *wire) close() {
	w.once.Do(func() {
		close(w.closed)
		_ = w.conn.Close()
	})
}

// poke wakes whatever reads the channel, which has room for one.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
