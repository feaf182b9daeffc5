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

	// TakenOver has the connection that a handler hijacks; nil: nobody wants to know.
	TakenOver func(net.Conn) net.Conn

	// Final, if not nil, is told the status of the final response before the header is
	// finalized, and 0 if nobody knows it: the header is flushed before the handler has said
	// one, or the connection is taken over, also after a response. It is told again where the
	// writer below has turned out to flush nothing.
	Final func(status int)
}

// Finalize brings the header into its final state, once, for a response whose status
// nobody knows.
func (g *guard) Finalize() { g.finalize(0) }

// Unwrap is for http.ResponseController.
func (g *guard) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// finalize brings the header into its final state, once. What comes second
// waits until that is done, being about to have the header written.
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
// has somebody to tell first. g is locked.
func (g *guard) settle(status int) {
	g.Fields.finalized.Store(true)
	if status == 0 {
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
// that it carries none of our fields. They are put back afterwards, for who reads them
// and for adapters that write past us.
//
// net/http's HTTP/2 server encodes a 1xx from this very map, on another goroutine, and does not
// wait for it where the client has reset the stream: whoever writes to the map then ends the
// process (golang/go#67940). Of a map that has a Transfer-Encoding, which no 1xx may have, it
// encodes a copy. So there is one for that moment; it has no line, as Date has none that is to
// be left out, and no server sends it. With it the changes of handlers and of ReverseProxy are
// safe too. To leave the map alone is no cure: the final response needs our fields.
func (g *guard) early(status int) {
	const copied = "Transfer-Encoding"
	h := g.Header()
	g.Fields.replaceStack(h)
	was := maps.Clone(h)
	g.Fields.takeOut(h)
	h[copied] = was[copied] // that of the handler, or of the limiter inside; else nil, but there
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

// hijack is Hijack, of a writer that has it. Who takes the connection over writes the
// response itself, often from the header map: ReverseProxy does, when it switches
// protocols. Until then nothing is sent, so that the header is finalized once it is known that
// there is somebody who does.
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
