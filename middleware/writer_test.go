// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
)

// A writer records what reaches it, and what of the header was there when the
// header was written. Its parts add the optional interfaces.
type writer struct {
	mu      sync.Mutex
	header  http.Header
	sent    http.Header // at the first write
	written int
	flushes int
	hijacks int
	pushes  int
	reads   int
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin()
}

func (w *writer) begin() {
	if w.sent == nil {
		w.sent = w.header.Clone()
	}
}

func (w *writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin()
	w.written += len(b)
	return len(b), nil
}

type (
	flushes struct{ w *writer }
	hijacks struct{ w *writer }
	reads   struct{ w *writer }
	pushes  struct{ w *writer }
)

func (f flushes) Flush() { f.w.begin(); f.w.flushes++ }
func (h hijacks) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h.w.hijacks++
	return nil, nil, nil
}
func (r reads) ReadFrom(src io.Reader) (int64, error) {
	r.w.begin()
	r.w.reads++
	return io.Copy(io.Discard, src)
}
func (p pushes) Push(string, *http.PushOptions) error { p.w.pushes++; return nil }

// combine returns w with the optional interfaces that the bits name.
func combine(w *writer, bits int) http.ResponseWriter {
	f, h, r, p := flushes{w}, hijacks{w}, reads{w}, pushes{w}
	return [16]http.ResponseWriter{
		w,
		struct {
			*writer
			flushes
		}{w, f},
		struct {
			*writer
			hijacks
		}{w, h},
		struct {
			*writer
			flushes
			hijacks
		}{w, f, h},
		struct {
			*writer
			reads
		}{w, r},
		struct {
			*writer
			flushes
			reads
		}{w, f, r},
		struct {
			*writer
			hijacks
			reads
		}{w, h, r},
		struct {
			*writer
			flushes
			hijacks
			reads
		}{w, f, h, r},
		struct {
			*writer
			pushes
		}{w, p},
		struct {
			*writer
			flushes
			pushes
		}{w, f, p},
		struct {
			*writer
			hijacks
			pushes
		}{w, h, p},
		struct {
			*writer
			flushes
			hijacks
			pushes
		}{w, f, h, p},
		struct {
			*writer
			reads
			pushes
		}{w, r, p},
		struct {
			*writer
			flushes
			reads
			pushes
		}{w, f, r, p},
		struct {
			*writer
			hijacks
			reads
			pushes
		}{w, h, r, p},
		struct {
			*writer
			flushes
			hijacks
			reads
			pushes
		}{w, f, h, r, p},
	}[bits]
}
