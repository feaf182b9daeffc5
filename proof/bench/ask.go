// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
)

// A recorder is a ResponseWriter that is used for one request after the other. It can what that
// of net/http for HTTP/1 can, because middleware that wraps it has to keep that, and pays for it.
type recorder struct {
	http.Flusher // these three are nil, and never called
	http.Hijacker
	io.ReaderFrom

	header http.Header // it keeps its size, as a map that net/http makes for each request would not
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

// okay is the body of the limited handler, and of no refusal.
var okay = []byte("ok")

// served returns the handler that all limiters limit.
func served() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(okay) // the client sees what it gets
	})
}

// How clients show tokens, and how they get them: by the field of tokens, or by cookies.
const (
	byHeader   = "Tallystick-Token" // not imported, so that a change of it is noticed
	byCookie   = "Cookie"
	setCookie  = "Set-Cookie"
	policy     = "contact"
	cookieName = "__Host-tallystick-" + policy
)

// An asker is the client of a row: one that asks again and again, or many, one after the other.
// It does as little as it can, for what it does is measured too; the row bare is that.
type asker struct {
	handlers []http.Handler // asked in turn
	turn     int
	request  *http.Request
	w        recorder

	shows  string     // a field
	lines  [][]string // of it, shown in turn
	echoes bool       // the newest tokens, from each answer

	// Many clients come from a population, one after the other. nil: there is one.
	population *population
	next       int
	renew      func() http.Handler // an instance that has met no client

	want    int    // the status
	channel string // by which the answer brings a token
	both    bool   // by both channels: no token was accepted
	either  bool   // as it likes
	taken   int    // tokens, from answers
	wrong   string // the first answer that was not as meant
}

// newAsker returns one that asks handlers for client 0 of a population.
func newAsker(method string, handlers ...http.Handler) *asker {
	a := &asker{
		handlers: handlers,
		request:  httptest.NewRequest(method, "http://bench.test/contact", http.NoBody),
		w:        recorder{header: make(http.Header, 8)},
		want:     http.StatusOK,
	}
	a.request.RemoteAddr = address(0)
	return a
}

// show makes the client show lines of a field, from now on.
func (a *asker) show(field string, lines ...[]string) {
	a.shows, a.lines = field, lines
	a.request.Header[field] = lines[0]
}

// run sends n requests.
func (a *asker) run(n int) {
	a.taken = 0
	for range n {
		if a.population != nil {
			at := a.next % len(a.population.addresses)
			a.request.RemoteAddr = a.population.addresses[at]
			if a.shows != "" {
				a.lines[0] = a.population.tokens[at : at+1]
				a.request.Header[a.shows] = a.lines[0]
			}
			a.next++
		}
		if len(a.lines) > 1 {
			a.request.Header[a.shows] = a.lines[a.turn%len(a.lines)]
		}
		clear(a.w.header)
		a.w.status, a.w.body = 0, 0
		a.handlers[a.turn%len(a.handlers)].ServeHTTP(&a.w, a.request)
		if a.w.status != a.want || (a.w.body == len(okay)) != (a.want == http.StatusOK) {
			a.mistaken()
		}
		if a.echoes {
			a.take()
		}
		a.turn++
	}
}

// take makes the newest tokens those that are shown next. There are as many in each answer.
func (a *asker) take() {
	line := a.lines[a.turn%len(a.lines)]
	if v := a.w.header[byHeader]; a.shows == byHeader && len(v) == len(line) {
		copy(line, v)
		a.taken++
	}
	if v := a.w.header[setCookie]; a.shows == byCookie && len(v) == 1 {
		line[0], _, _ = strings.Cut(v[0], ";")
		a.taken++
	}
}

// mistaken notes that the last answer is not as meant.
func (a *asker) mistaken() {
	if a.wrong == "" {
		a.wrong = fmt.Sprintf("answered %d with %d bytes: %v", a.w.status, a.w.body, a.w.header)
	}
}

// after says what was wrong with n answers, the last of which it looks at closely: an allowed
// request is answered by the channel that its token came by, and by both where none was accepted.
func (a *asker) after(n int) error {
	header, cookie := len(a.w.header[byHeader]) > 0, len(a.w.header[setCookie]) > 0
	if !a.either && (header != (a.both || a.channel == byHeader) || cookie != (a.both || a.channel == byCookie)) {
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

// slice sends n requests and adds what one of them took: at first the memory that it allocates, and then time of a
// processor. New clients get a new instance where those of the last run out.
func (a *asker) slice(n int) func(add func(unit string, figure float64)) {
	var before, after runtime.MemStats
	return func(add func(unit string, figure float64)) {
		if a.renew != nil && a.next+n > len(a.population.addresses) {
			a.handlers, a.next = []http.Handler{a.renew()}, 0
		}
		if counts := before.Mallocs == 0; counts { // which stops the program, and so is not timed
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
