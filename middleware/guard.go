package middleware

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// A guard sets the fields when the response header is written. Set earlier,
// handlers for GET would lose them: http.ServeContent and its kin delete
// Cache-Control on errors, ReverseProxy clears the map at each 1xx response and
// adds the upstream's fields of the same names, and any handler may decide that
// its response is for everybody to cache. That is known only at the end.
type guard struct {
	http.ResponseWriter
	fields  *fields
	settled atomic.Bool
	mu      sync.Mutex // a handler's goroutines may all be the first to write
}

// Unwrap is for http.ResponseController.
func (g *guard) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// settle brings the header into its final state, once. Whoever comes second
// waits until that is done, being about to have the header written.
func (g *guard) settle() {
	if g.settled.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.settled.Load() {
		return
	}
	defer g.settled.Store(true)
	h := g.Header()
	if publiclyCacheable(h, g.fields.now) {
		if !g.fields.precious() {
			// Anybody may be served this response from a cache. It must not carry
			// one client's token, and would carry stale counts. The memory counts.
			g.fields.drop(h)
			return
		}
		forbidStoring(h)
	}
	g.fields.set(h)
}

// WriteHeader implements [http.ResponseWriter].
func (g *guard) WriteHeader(status int) {
	if early := status >= 100 && status < 200 && status != http.StatusSwitchingProtocols; !early {
		g.settle() // an early hint is not the response
	}
	g.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (g *guard) Write(b []byte) (int, error) {
	g.settle()
	return g.ResponseWriter.Write(b)
}

// WriteString implements [io.StringWriter].
func (g *guard) WriteString(s string) (int, error) {
	g.settle()
	return io.WriteString(g.ResponseWriter, s)
}

// FlushError is for http.ResponseController, which would otherwise unwrap us
// and flush the header before it is settled.
func (g *guard) FlushError() error {
	g.settle()
	err := http.NewResponseController(g.ResponseWriter).Flush()
	if errors.Is(err, http.ErrNotSupported) {
		// Nothing was written, and the handler may still change its mind. If
		// something had been before, settling again would change nothing that
		// is sent.
		g.settled.Store(false)
	}
	return err
}

// The optional interfaces of a ResponseWriter. http.CloseNotifier is left out:
// it has been deprecated since the request has a context.
type (
	flusher  struct{ g *guard }
	hijacker struct{ g *guard }
	readFrom struct{ g *guard }
	pusher   struct{ g *guard }
)

func (f flusher) Flush() {
	f.g.settle()
	f.g.ResponseWriter.(http.Flusher).Flush()
}

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.g.ResponseWriter.(http.Hijacker).Hijack()
}

func (r readFrom) ReadFrom(src io.Reader) (int64, error) {
	r.g.settle()
	return r.g.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
}

func (p pusher) Push(target string, opts *http.PushOptions) error {
	return p.g.ResponseWriter.(http.Pusher).Push(target, opts)
}

// wrap returns a guard for w, and a writer that has exactly those optional
// interfaces that w has: a handler that asks whether it can flush, hijack or
// send a file must get the truth.
func wrap(w http.ResponseWriter, f *fields) (*guard, http.ResponseWriter) {
	g := &guard{ResponseWriter: w, fields: f}
	fl, hi, rf, pu := flusher{g}, hijacker{g}, readFrom{g}, pusher{g}
	has := 0
	if _, ok := w.(http.Flusher); ok {
		has |= 1
	}
	if _, ok := w.(http.Hijacker); ok {
		has |= 2
	}
	if _, ok := w.(io.ReaderFrom); ok {
		has |= 4
	}
	if _, ok := w.(http.Pusher); ok {
		has |= 8
	}
	switch has {
	case 1:
		return g, struct {
			*guard
			flusher
		}{g, fl}
	case 2:
		return g, struct {
			*guard
			hijacker
		}{g, hi}
	case 3:
		return g, struct {
			*guard
			flusher
			hijacker
		}{g, fl, hi}
	case 4:
		return g, struct {
			*guard
			readFrom
		}{g, rf}
	case 5:
		return g, struct {
			*guard
			flusher
			readFrom
		}{g, fl, rf}
	case 6:
		return g, struct {
			*guard
			hijacker
			readFrom
		}{g, hi, rf}
	case 7:
		return g, struct {
			*guard
			flusher
			hijacker
			readFrom
		}{g, fl, hi, rf}
	case 8:
		return g, struct {
			*guard
			pusher
		}{g, pu}
	case 9:
		return g, struct {
			*guard
			flusher
			pusher
		}{g, fl, pu}
	case 10:
		return g, struct {
			*guard
			hijacker
			pusher
		}{g, hi, pu}
	case 11:
		return g, struct {
			*guard
			flusher
			hijacker
			pusher
		}{g, fl, hi, pu}
	case 12:
		return g, struct {
			*guard
			readFrom
			pusher
		}{g, rf, pu}
	case 13:
		return g, struct {
			*guard
			flusher
			readFrom
			pusher
		}{g, fl, rf, pu}
	case 14:
		return g, struct {
			*guard
			hijacker
			readFrom
			pusher
		}{g, hi, rf, pu}
	case 15:
		return g, struct {
			*guard
			flusher
			hijacker
			readFrom
			pusher
		}{g, fl, hi, rf, pu}
	}
	return g, g
}
