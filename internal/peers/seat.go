// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"net/http"
	"net/http/httptest"
)

// A Request says what the clients of a benchmark send, beside their address.
type Request struct {
	Method string
	Shows  Shows
}

// Shows says how clients show their tokens.
type Shows uint8

const (
	Nothing  Shows = iota // no token
	InHeader              // in the field made for it
	InCookie              // in a cookie
)

const (
	tokenHeader  = "Tallystick-Token" // not imported, so that a change of it is noticed
	cookieHeader = "Cookie"
	setCookie    = "Set-Cookie"
)

// A seat is where one goroutine sends requests from, for one client after the
// other of its part of the population, and keeps count of them.
type seat struct {
	handler    http.Handler
	population *Population
	shows      Shows
	want       int // the status

	request *http.Request
	line    []string // the value of the field that tokens are shown in
	w       recorder

	begin, end, next int // the part of the population, and who is next
	first            int // who was next when counting began

	count
	_ [64]byte // counts of different seats share no cache line
}

type count struct {
	sent  int      // requests
	wrong int      // answers of another status or body than wanted
	alien int      // requests from an address outside of the population
	mute  int      // answers that say the token was not accepted, of those looked at
	odd   recorder // the first wrong answer
	seen  clients  // who sent them
}

func newSeat(handler http.Handler, population *Population, r Request, want int) *seat {
	s := &seat{
		handler:    handler,
		population: population,
		shows:      r.Shows,
		want:       want,
		request:    httptest.NewRequest(r.Method, "http://peers.test/contact", http.NoBody),
		line:       []string{""},
		w:          newRecorder(),
		end:        population.size,
	}
	s.show()
	s.restart()
	return s
}

// show puts the line that tokens are shown in into the request.
func (s *seat) show() {
	switch s.shows {
	case InHeader:
		s.request.Header[tokenHeader] = s.line
	case InCookie:
		s.request.Header[cookieHeader] = s.line
	}
}

// sit gives s its part of the population, before it counts; an empty part means all.
func (s *seat) sit(begin, end int) {
	if begin == end {
		begin, end = 0, s.population.size
	}
	s.begin, s.end, s.next, s.first = begin, end, begin, begin
}

// restart begins a new count. It goes on with the client that is next, so that
// no benchmark warms up the clients that it is going to measure.
func (s *seat) restart() {
	s.first = s.next
	seen := s.seen
	if seen == nil {
		seen = newClients(s.population.size)
	}
	clear(seen)
	s.count = count{seen: seen}
}

// send sends the request of the next client.
func (s *seat) send() {
	i := s.next
	if s.next++; s.next == s.end {
		s.next = s.begin
	}
	s.visit(i)
}

// visit sends the request of client i. What is counted is read from the request
// that the limiter gets, not from i: a harness that fills one variable and sends
// another has fooled others.
func (s *seat) visit(i int) {
	s.request.RemoteAddr = s.population.Address(i)
	switch s.shows {
	case InHeader:
		s.line[0] = s.population.Token(i)
	case InCookie:
		s.line[0] = s.population.Cookie(i)
	}
	s.sent++
	if c := clientOf(s.request.RemoteAddr); c >= 0 && c < s.population.size {
		s.seen.add(c)
	} else {
		s.alien++
	}
	s.w.reset()
	s.handler.ServeHTTP(&s.w, s.request)
	if s.w.status != s.want || (s.w.body == len(body)) != (s.want == http.StatusOK) {
		if s.wrong++; s.wrong == 1 {
			s.odd = recorder{header: s.w.header.Clone(), status: s.w.status, body: s.w.body}
		}
	}
	if s.shows != Nothing && s.sent%64 == 0 && !s.heard() {
		s.mute++
	}
}

// heard reports whether the answer is one to an accepted token: an allowed
// request is answered on the channel that the token came by, and on both if none
// was accepted; a refusal brings a token only if it says more than the shown one.
func (s *seat) heard() bool {
	header, cookie := len(s.w.header[tokenHeader]) > 0, len(s.w.header[setCookie]) > 0
	if s.want != http.StatusOK {
		return !header && !cookie
	}
	return header == (s.shows == InHeader) && cookie == (s.shows == InCookie)
}
