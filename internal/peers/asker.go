// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
)

// An asker is the client of a contestant: one that asks again and again, or a new one for
// each request. It does as little as it can, for what it does is measured too; the row
// "bare" is that.
type asker struct {
	handlers []http.Handler // asked in turn
	turn     int
	request  *http.Request
	w        recorder

	// Fresh clients come from a population, one after the other. nil: there is one client.
	// An instance gets each of them once, and then renew makes another.
	population *Population
	next       int
	renew      func() (http.Handler, error)

	shows  Shows
	echoes bool     // the newest token, from each answer
	line   []string // the value of the field that a token is shown in

	want    int    // the status
	channel Shows  // by which the answer brings a token
	both    bool   // by both channels: no token was accepted
	taken   int    // tokens, from answers
	wrong   string // the first answer that was not as meant
}

// newAsker returns one that asks handlers for client 0 of a population.
func newAsker(method string, handlers ...http.Handler) *asker {
	a := &asker{
		handlers: handlers,
		request:  httptest.NewRequest(method, "http://peers.test/contact", http.NoBody),
		w:        newRecorder(),
		line:     []string{""},
		want:     http.StatusOK,
	}
	a.request.RemoteAddr = string(appendAddress(nil, 0))
	return a
}

// show makes the client show a line that holds a token, from now on.
func (a *asker) show(s Shows, line string) {
	a.shows, a.line[0] = s, line
	switch s {
	case InHeader:
		a.request.Header[tokenHeader] = a.line
	case InCookie:
		a.request.Header[cookieHeader] = a.line
	}
}

// run sends n requests.
func (a *asker) run(n int) {
	a.taken = 0
	for range n {
		if a.population != nil {
			a.request.RemoteAddr = a.population.Address(a.next)
			a.next++
		}
		a.w.reset()
		a.handlers[a.turn].ServeHTTP(&a.w, a.request)
		if a.turn++; a.turn == len(a.handlers) {
			a.turn = 0
		}
		if a.w.status != a.want || (a.w.body == len(body)) != (a.want == http.StatusOK) {
			a.mistaken()
		}
		if a.echoes {
			a.take()
		}
	}
}

// take makes the newest token the one that is shown.
func (a *asker) take() {
	switch a.shows {
	case InHeader:
		if v := a.w.header[tokenHeader]; len(v) == 1 {
			a.line[0] = v[0]
			a.taken++
		}
	case InCookie:
		if v := a.w.header[setCookie]; len(v) == 1 {
			a.line[0], _, _ = strings.Cut(v[0], ";")
			a.taken++
		}
	}
}

// mistaken notes that the last answer is not as meant.
func (a *asker) mistaken() {
	if a.wrong == "" {
		a.wrong = fmt.Sprintf("answered %d with %d bytes: %v", a.w.status, a.w.body, a.w.header)
	}
}

// after says what was wrong with n answers, the last of which it looks at closely: an
// allowed request is answered by the channel that its token came by, and by both where none
// was accepted.
func (a *asker) after(n int) error {
	header, cookie := len(a.w.header[tokenHeader]) == 1, len(a.w.header[setCookie]) == 1
	if header != (a.both || a.channel == InHeader) || cookie != (a.both || a.channel == InCookie) {
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
