// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// A recorder is a ResponseWriter that is used for one request after the other.
// It has the optional interfaces of the one that net/http uses for HTTP/1,
// because middleware that wraps it has to keep them, and pays for that.
type recorder struct {
	header http.Header
	status int // 0: nothing written
	body   int // bytes
}

func newRecorder() recorder { return recorder{header: make(http.Header, 8)} }

// reset makes w ready for the next answer. The map keeps its size, as one that
// net/http allocates per request would not; no limiter pays for it.
func (w *recorder) reset() {
	clear(w.header)
	w.status, w.body = 0, 0
}

// Header implements [http.ResponseWriter].
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements [http.ResponseWriter].
func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body += len(b)
	return len(b), nil
}

// WriteString implements [io.StringWriter].
func (w *recorder) WriteString(s string) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body += len(s)
	return len(s), nil
}

// ReadFrom implements [io.ReaderFrom].
func (w *recorder) ReadFrom(r io.Reader) (int64, error) {
	w.WriteHeader(http.StatusOK)
	n, err := io.Copy(io.Discard, r)
	w.body += int(n)
	return n, err
}

// Flush implements [http.Flusher].
func (w *recorder) Flush() { w.WriteHeader(http.StatusOK) }

// Hijack implements [http.Hijacker].
func (w *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}

// body is what the limited handler answers, and no refusal.
var body = []byte("ok")

// Served returns the handler that all limiters limit.
func Served() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(body) // a recorder takes everything
	})
}
