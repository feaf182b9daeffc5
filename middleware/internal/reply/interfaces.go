// SPDX-License-Identifier: Apache-2.0

package reply

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// A handler that asks whether it can flush, hijack, send a file or push must get the
// truth, so there is a writer for each set of these interfaces that a server's may have.
// http.CloseNotifier is left out: it has been deprecated since the request has a context.
//
// They are one struct under sixteen names, because pointers to such types convert to
// one another: a request's guard becomes what is needed without an allocation, which a
// struct that holds a guard beside the methods would cost each request.
type (
	// A Guard is a writer that has none of them. Its Fields are set when the header of the
	// final response is written.
	Guard struct{ guard }

	guardF    struct{ guard }
	guardH    struct{ guard }
	guardFH   struct{ guard }
	guardR    struct{ guard }
	guardFR   struct{ guard }
	guardHR   struct{ guard }
	guardFHR  struct{ guard }
	guardP    struct{ guard }
	guardFP   struct{ guard }
	guardHP   struct{ guard }
	guardFHP  struct{ guard }
	guardRP   struct{ guard }
	guardFRP  struct{ guard }
	guardHRP  struct{ guard }
	guardFHRP struct{ guard }
)

// Wrap returns w behind the guard, with exactly those optional interfaces that w has.
func (g *Guard) Wrap(w http.ResponseWriter) http.ResponseWriter {
	g.ResponseWriter = w
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
		return (*guardF)(g)
	case 2:
		return (*guardH)(g)
	case 3:
		return (*guardFH)(g)
	case 4:
		return (*guardR)(g)
	case 5:
		return (*guardFR)(g)
	case 6:
		return (*guardHR)(g)
	case 7:
		return (*guardFHR)(g)
	case 8:
		return (*guardP)(g)
	case 9:
		return (*guardFP)(g)
	case 10:
		return (*guardHP)(g)
	case 11:
		return (*guardFHP)(g)
	case 12:
		return (*guardRP)(g)
	case 13:
		return (*guardFRP)(g)
	case 14:
		return (*guardHRP)(g)
	case 15:
		return (*guardFHRP)(g)
	}
	return g
}

func (g *guardF) Flush()    { g.flush() }
func (g *guardFH) Flush()   { g.flush() }
func (g *guardFR) Flush()   { g.flush() }
func (g *guardFHR) Flush()  { g.flush() }
func (g *guardFP) Flush()   { g.flush() }
func (g *guardFHP) Flush()  { g.flush() }
func (g *guardFRP) Flush()  { g.flush() }
func (g *guardFHRP) Flush() { g.flush() }

func (g *guardH) Hijack() (net.Conn, *bufio.ReadWriter, error)    { return g.hijack() }
func (g *guardFH) Hijack() (net.Conn, *bufio.ReadWriter, error)   { return g.hijack() }
func (g *guardHR) Hijack() (net.Conn, *bufio.ReadWriter, error)   { return g.hijack() }
func (g *guardFHR) Hijack() (net.Conn, *bufio.ReadWriter, error)  { return g.hijack() }
func (g *guardHP) Hijack() (net.Conn, *bufio.ReadWriter, error)   { return g.hijack() }
func (g *guardFHP) Hijack() (net.Conn, *bufio.ReadWriter, error)  { return g.hijack() }
func (g *guardHRP) Hijack() (net.Conn, *bufio.ReadWriter, error)  { return g.hijack() }
func (g *guardFHRP) Hijack() (net.Conn, *bufio.ReadWriter, error) { return g.hijack() }

func (g *guardR) ReadFrom(src io.Reader) (int64, error)    { return g.readFrom(src) }
func (g *guardFR) ReadFrom(src io.Reader) (int64, error)   { return g.readFrom(src) }
func (g *guardHR) ReadFrom(src io.Reader) (int64, error)   { return g.readFrom(src) }
func (g *guardFHR) ReadFrom(src io.Reader) (int64, error)  { return g.readFrom(src) }
func (g *guardRP) ReadFrom(src io.Reader) (int64, error)   { return g.readFrom(src) }
func (g *guardFRP) ReadFrom(src io.Reader) (int64, error)  { return g.readFrom(src) }
func (g *guardHRP) ReadFrom(src io.Reader) (int64, error)  { return g.readFrom(src) }
func (g *guardFHRP) ReadFrom(src io.Reader) (int64, error) { return g.readFrom(src) }

func (g *guardP) Push(target string, opts *http.PushOptions) error    { return g.push(target, opts) }
func (g *guardFP) Push(target string, opts *http.PushOptions) error   { return g.push(target, opts) }
func (g *guardHP) Push(target string, opts *http.PushOptions) error   { return g.push(target, opts) }
func (g *guardFHP) Push(target string, opts *http.PushOptions) error  { return g.push(target, opts) }
func (g *guardRP) Push(target string, opts *http.PushOptions) error   { return g.push(target, opts) }
func (g *guardFRP) Push(target string, opts *http.PushOptions) error  { return g.push(target, opts) }
func (g *guardHRP) Push(target string, opts *http.PushOptions) error  { return g.push(target, opts) }
func (g *guardFHRP) Push(target string, opts *http.PushOptions) error { return g.push(target, opts) }
