// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// silence is how long a peer may say nothing, or read nothing, before its connection ends.
const silence = 10 * time.Second

// mostQueued is how much may wait to be written to one peer. A peer that reads has at most a batch, an answer, a chunk
// and some small frames there.
const mostQueued = 8 * mostLen

// mostUnread is how much is written where it is flushed, until the peer has read it: any TCP has room for that.
const mostUnread = 4 << 10

// A wire is a connection whose other end has shown a secret. One goroutine reads it. What TCP has room for is written
// where it is flushed: to wake a goroutine costs as much as to write. A goroutine of its own writes the rest: else two
// processes that write to each other could wait for each other.
type wire struct {
	*session
	conn   net.Conn // below TLS, so that to close it waits for nothing
	dialed bool     // by this process
	tcp    bool
	r      *bufio.Reader
	buf    []byte // of the frame that was read last
	w      net.Conn

	mu       sync.Mutex
	queue    []byte       // signed frames
	writing  bool         // a goroutine of its own
	unread   atomic.Int64 // bytes that were written elsewhere, and the peer may not have read
	extended time.Time
}

func newWire(s *session, conn, secured net.Conn, dialed bool) *wire {
	_, tcp := conn.(*net.TCPConn)
	return &wire{session: s, conn: conn, dialed: dialed, tcp: tcp, r: bufio.NewReader(secured), w: secured}
}

// read returns the next frame, whose content is good until the next call.
func (w *wire) read() (kind byte, content []byte, err error) { return w.in.read(w.r, &w.buf) }

// put puts a frame into the queue, which flush has written.
func (w *wire) put(kind byte, head, content []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue = w.out.append(w.queue, kind, head, content); len(w.queue) > mostQueued { // it asks, and does not read the answers
		w.close()
	}
}

func (w *wire) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch n := w.unread.Load() + int64(len(w.queue)); {
	case w.writing || len(w.queue) == 0:
	case w.tcp && n <= mostUnread:
		w.unread.Store(n)
		w.write(w.queue)
		w.queue = w.queue[:0]
	default:
		w.writing = true
		go w.empty()
	}
}

// empty writes the queue.
func (w *wire) empty() {
	var b []byte
	for {
		w.mu.Lock()
		b, w.queue, w.writing = w.queue, b[:0], len(w.queue) > 0
		w.mu.Unlock()
		if len(b) == 0 {
			return
		}
		w.write(b)
	}
}

// write writes, for no longer than the silence. Whatever is wrong ends the connection.
func (w *wire) write(b []byte) {
	if now := time.Now(); now.Sub(w.extended) > time.Second {
		w.extended = now
		_ = w.w.SetWriteDeadline(now.Add(silence))
	}
	if _, err := w.w.Write(b); err != nil {
		w.close()
	}
}

func (w *wire) close() { _ = w.conn.Close() }

// poke wakes whatever reads the channel, which has room for one.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
