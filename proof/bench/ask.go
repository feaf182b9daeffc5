// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
)

// A recorder is a ResponseWriter that serves one request after the other. It has the methods of net/http's writer for HTTP/1,
// because middleware that wraps a writer has to keep them, and pays for it.
type recorder struct {
	http.Flusher // these three are nil: no limiter calls them
	http.Hijacker
	io.ReaderFrom

	header http.Header // one map for all requests; net/http makes one for each
	status int         // 0: nothing written
	body   int         // bytes
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body += len(b)
	return len(b), nil
}

func (w *recorder) WriteString(s string) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body += len(s)
	return len(s), nil
}

// okay is the body of the limited handler. No refusal has it.
var okay = []byte("ok")

// served returns the handler that all limiters limit.
func served() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(okay) // the client checks the body
	})
}

// The channels by which clients show and get tokens: the field for tokens, or cookies.
const (
	byHeader   = "Tallystick-Token" // not imported, so that a test notices a change
	byCookie   = "Cookie"
	byBoth     = byHeader + byCookie
	byAny      = "any" // of them, or none
	setCookie  = "Set-Cookie"
	policy     = "contact"
	cookieName = "__Host-tallystick-" + policy
)

// A client has an address, and shows the lines of a field.
type client struct {
	address string
	lines   []string
}

// population returns clients. Each has its own address, and room for one token.
func population(size int) []client {
	all, tokens := make([]client, size), make([]string, size)
	for i := range all {
		all[i] = client{address(i), tokens[i : i+1]}
	}
	return all
}

// address returns the address and port of client i, below 300 millions. All texts have the same length.
func address(i int) string {
	const n = 150 // three octets are numbers from 100 to 249
	return fmt.Sprintf("%d.%d.%d.%d:40000", 10+i/(n*n*n), 100+i/(n*n)%n, 100+i/n%n, 100+i%n)
}

// An asker sends the requests of a row's clients: of one client again and again, or of many in turn.
// It does as little as it can, because its own work is measured too, as the row bare.
type asker struct {
	handlers []http.Handler // asked in turn
	clients  []client       // ask in turn
	turn     int
	request  *http.Request
	w        recorder

	field  string              // shows the lines of clients
	echoes bool                // clients show the tokens of the last answer
	renew  func() http.Handler // makes a new instance when all clients have asked

	want   int    // the status
	bears  []int  // statuses that an answer may have instead
	brings string // the channel of an answer's token; byBoth where no token was accepted, "" for no token
	taken  int    // tokens of answers
	wrong  string // the first wrong answer
}

// newAsker returns an asker for client 0 of a population.
func newAsker(method string, handlers ...http.Handler) *asker {
	a := &asker{
		handlers: handlers,
		clients:  population(1),
		request:  httptest.NewRequest(method, "http://bench.test/contact", http.NoBody),
		w:        recorder{header: make(http.Header, 8)},
		want:     http.StatusOK,
	}
	a.request.RemoteAddr = address(0)
	return a
}

// show makes the first client show lines of a field from now on.
func (a *asker) show(field string, lines ...string) {
	a.field, a.clients[0].lines, a.request.Header[field] = field, lines, lines
}

// run sends n requests.
func (a *asker) run(n int) {
	a.taken = 0
	for range n {
		c := &a.clients[0]
		if all := len(a.clients); all > 1 {
			c = &a.clients[a.turn%all]
			if a.request.RemoteAddr = c.address; a.field != "" {
				a.request.Header[a.field] = c.lines
			}
		}
		clear(a.w.header)
		a.w.status, a.w.body = 0, 0
		a.handlers[a.turn%len(a.handlers)].ServeHTTP(&a.w, a.request)
		switch {
		case slices.Contains(a.bears, a.w.status):
		case a.w.status != a.want || (a.w.body == len(okay)) != (a.want == http.StatusOK):
			a.mistaken()
		}
		if a.echoes {
			a.take(c)
		}
		a.turn++
	}
}

// take makes a client show the tokens of the last answer. Each answer has the same number of tokens.
func (a *asker) take(c *client) {
	if v := a.w.header[byHeader]; a.field == byHeader && len(v) == len(c.lines) {
		copy(c.lines, v)
		a.taken++
	}
	if v := a.w.header[setCookie]; a.field == byCookie && len(v) == 1 {
		c.lines[0], _, _ = strings.Cut(v[0], ";")
		a.taken++
	}
}

// mistaken notes that the last answer is wrong.
func (a *asker) mistaken() {
	if a.wrong == "" {
		a.wrong = fmt.Sprintf("answered %d with %d bytes: %v", a.w.status, a.w.body, a.w.header)
	}
}

// after returns the first mistake in n answers. It also checks the channels of the last one: an allowed request is answered
// by the channel of its token, and by both channels where no token was accepted.
func (a *asker) after(n int) error {
	brought := ""
	if a.w.header[byHeader] != nil {
		brought = byHeader
	}
	if a.w.header[setCookie] != nil {
		brought += byCookie
	}
	if a.brings != byAny && a.brings != brought {
		a.mistaken()
	}
	switch {
	case a.wrong != "":
		return fmt.Errorf("an answer is not as meant: %s", a.wrong)
	case a.echoes && a.taken != n:
		return fmt.Errorf("%d of %d answers brought a token", a.taken, n)
	}
	return nil
}

// ask sends n requests and checks the answers.
func (a *asker) ask(n int) {
	a.run(n)
	check(a.after(n))
}

// newest makes the client ask once, and show its newest tokens from then on.
func (a *asker) newest(field string) *asker {
	a.brings, a.echoes = byBoth, false
	delete(a.request.Header, field)
	a.ask(1)
	a.brings, a.echoes, a.turn = field, true, 0
	a.show(field, make([]string, len(a.w.header[byHeader]))...)
	a.take(&a.clients[0])
	return a
}

// visit makes each client ask h once and keep its token. The order is random, so that a limiter's records of the clients do
// not lie in memory in the order of later requests.
func visit(clients []client, h http.Handler) {
	a := newAsker(http.MethodPost, h)
	a.clients, a.brings = clients, byAny
	for _, i := range rand.Perm(len(clients)) {
		a.turn = i
		a.ask(1)
		clients[i].lines[0] = a.w.header.Get(byHeader)
	}
}

// fresh takes a new instance if fewer than n clients are left that the last one has not met.
func (a *asker) fresh(n int) {
	if a.renew != nil && a.turn+n > len(a.clients) {
		a.handlers, a.turn = []http.Handler{a.renew()}, 0
	}
}

// slice sends n requests and adds the cost of one: the first slice adds the memory, and all others a processor's time.
func (a *asker) slice(n int) func(add func(unit string, figure float64)) {
	var before, after runtime.MemStats
	return func(add func(unit string, figure float64)) {
		a.fresh(n)
		if counts := before.Mallocs == 0; counts { // reading the memory stops the program, so this slice is not timed
			runtime.ReadMemStats(&before)
			a.run(n)
			runtime.ReadMemStats(&after)
			add("bytes", float64(after.TotalAlloc-before.TotalAlloc)/float64(n))
			add("objects", float64(after.Mallocs-before.Mallocs)/float64(n))
		} else {
			began := processorTime()
			a.run(n)
			add("ns", float64(processorTime()-began)/float64(n))
		}
		check(a.after(n))
	}
}
