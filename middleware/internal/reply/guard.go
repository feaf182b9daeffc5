// SPDX-License-Identifier: Apache-2.0

package reply

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"sync"
)

// A guard sets the fields when the header of the final response is written, whatever
// became of the header map until then: http.ServeContent and its kin delete
// Cache-Control on errors, ReverseProxy clears the map at each 1xx response and adds the
// upstream's fields of the same names, and any handler may decide that its response is
// for everybody to cache. That is known only at the end.
//
// It is made to lie in what a request allocates anyway.
type guard struct {
	http.ResponseWriter
	Fields Fields
	mu     sync.Mutex // a handler's goroutines may all be the first to write

	// TakenOver has the connection that a handler hijacks; may be nil.
	TakenOver func(net.Conn) net.Conn

	// Final, if not nil, is told the status of the final response before the header is
	// finalized, and 0 if it is unknown: the header is flushed before the handler sets one,
	// or the connection is taken over, also after a response. It is told again if the writer
	// below has flushed nothing.
	Final func(status int)
}

// Finalize brings the header into its final state, once, for a response of unknown
// status.
func (g *guard) Finalize() { g.finalize(0) }

// Unwrap is for http.ResponseController.
func (g *guard) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// finalize brings the header into its final state, once. A second caller waits until that is done,
// as it is about to write the header.
func (g *guard) finalize(status int) {
	f := &g.Fields
	if f.finalized.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !f.finalized.Load() {
		if g.Final != nil {
			g.Final(status)
		}
		f.finalize(g.Header())
		g.settle(status)
	}
}

// settle notes that the header is final, also for the next of the stack if that is written to next, unless it
// must call Final first. g is locked.
func (g *guard) settle(status int) {
	g.Fields.finalized.Store(true)
	if status == 0 || g.Fields.outer == nil {
		return // it may be flushed, in vain
	}
	if o, ok := g.ResponseWriter.(interface{ self() *guard }); ok && o.self().Final == nil && &o.self().Fields == g.Fields.outer {
		outer := o.self()
		outer.mu.Lock()
		defer outer.mu.Unlock()
		outer.settle(status)
	}
}

func (g *guard) self() *guard { return g }

// Answers reports whether what is written to w is written to g, and to nothing else on the way but other guards. A writer
// of the program's is not unwrapped: one that buffers can throw away what it was given, and answer something else.
func (g *guard) Answers(w http.ResponseWriter) bool {
	for {
		t, ours := w.(interface{ self() *guard })
		switch {
		case !ours:
			return false
		case t.self() == g:
			return true
		}
		w = t.self().ResponseWriter
	}
}

// WriteHeader implements [http.ResponseWriter].
func (g *guard) WriteHeader(status int) {
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols && !g.Fields.finalized.Load() {
		g.early(status)
		return
	}
	g.finalize(status)
	g.ResponseWriter.WriteHeader(status)
}

// early writes a response that is not yet the response. Clients keep nothing of it, so
// it carries none of our fields. They are put back afterwards, for handlers that read
// them and adapters that write past us.
//
// net/http's HTTP/2 server encodes a 1xx from this very map, on another goroutine, and does not
// wait for it if the client has reset the stream: a write to the map then ends the process
// (golang/go#67940). If the map has a Transfer-Encoding, which no 1xx may have, the server
// encodes a copy. So the map has one for that moment. It has no line, so no server sends it. It
// makes the changes of handlers and of ReverseProxy safe too. Leaving the map alone is no cure:
// the final response needs our fields.
func (g *guard) early(status int) {
	const copied = "Transfer-Encoding"
	h := g.Header()
	g.Fields.replaceStack(h)
	was := maps.Clone(h)
	g.Fields.takeOut(h)
	h[copied] = was[copied] // the handler's, or the inner limiter's; else nil, but there
	g.ResponseWriter.WriteHeader(status)
	delete(h, copied)
	maps.Copy(h, was)
}

// Write implements [http.ResponseWriter].
func (g *guard) Write(b []byte) (int, error) {
	g.finalize(http.StatusOK)
	return g.ResponseWriter.Write(b)
}

// WriteString implements [io.StringWriter].
func (g *guard) WriteString(s string) (int, error) {
	g.finalize(http.StatusOK)
	return io.WriteString(g.ResponseWriter, s)
}

// FlushError is for http.ResponseController, which would otherwise unwrap us
// and flush the header before it is finalized.
func (g *guard) FlushError() error {
	opens := !g.Fields.Finalized() && g.flushes()
	if opens {
		g.Finalize()
	}
	err := http.NewResponseController(g.ResponseWriter).Flush()
	if opens && errors.Is(err, http.ErrNotSupported) {
		// Few writers say so only when they are asked. Nothing was written, and the handler
		// may still change its mind.
		g.Fields.finalized.Store(false)
	}
	return err
}

// flushes reports whether the writer below can flush, as far as that can be told before it is
// asked, by the search of http.ResponseController: where it cannot, there is no outcome yet.
func (g *guard) flushes() bool {
	for w := g.ResponseWriter; ; {
		switch t := w.(type) {
		case interface{ flushes() bool }: // a guard, which has FlushError whatever is below
			return t.flushes()
		case http.Flusher, interface{ FlushError() error }:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return false
		}
	}
}

// flush is Flush, of a writer that has it.
func (g *guard) flush() {
	g.Finalize()
	g.ResponseWriter.(http.Flusher).Flush()
}

// hijack is Hijack of a writer that has it. A handler that takes the connection over writes
// the response itself, often from the header map, as ReverseProxy does when it switches
// protocols. So the header is finalized once the hijack has succeeded.
func (g *guard) hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := g.ResponseWriter.(http.Hijacker).Hijack()
	if err != nil {
		return conn, buf, err
	}
	if g.Finalize(); g.Final != nil {
		g.Final(0) // also where a response was before
	}
	if g.TakenOver != nil {
		conn = g.TakenOver(conn)
	}
	return conn, buf, nil
}

// readFrom is ReadFrom, of a writer that has it.
func (g *guard) readFrom(src io.Reader) (int64, error) {
	g.finalize(http.StatusOK)
	return g.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
}

// push is Push, of a writer that has it.
func (g *guard) push(target string, opts *http.PushOptions) error {
	return g.ResponseWriter.(http.Pusher).Push(target, opts)
}
