// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"io"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/pow"
)

// exchange is one RoundTrip: a request and its progress.
type exchange struct {
	t      *Transport
	req    *http.Request
	origin string // "" if none of our fields are sent or kept
	route  uint64

	attempts int // sends
	tries    int // sends, of those, with nothing of its own to show: neither a proof nor patience
	solves   int
	waited   time.Duration

	sent     uint64 // number of the last send
	kind     uint64 // of the challenge met last
	paid     paid   // for the next send
	answered string // the challenge answered last
	place    *place // in the queue for the last challenge, or nil
	shared   bool   // the last send showed what another had bought
	alone    bool   // what others buy does not help
}

// move is what follows a response: without an action, nothing.
type move struct {
	action    string
	reason    string        // with returning
	status    int           // of the response
	challenge pow.Challenge // with solving; its price is told in any case
	kind      uint64        // of the challenge
	expires   time.Time     // of the challenge
	wait      time.Duration // with waiting, how long; with waitTooLong, how long it would be
}

func newExchange(t *Transport, req *http.Request) *exchange {
	x := &exchange{t: t, req: req}
	if !bringsOwn(req.Header) {
		x.origin, x.route = originOf(req), routeOf(req)
	}
	return x
}

// send sends the request with a body, the tokens of the origin and the proof, and
// keeps what tokens come back.
func (x *exchange) send(body io.ReadCloser) (*http.Response, error) {
	// Not Clone: that would copy Trailer, which the caller may fill while the
	// body is read.
	r := x.req.WithContext(x.req.Context())
	r.Body = body
	p := x.paid
	x.paid = paid{}
	if x.origin != "" {
		if p.proof == "" && x.place == nil { // one that was called is to show what another has bought
			p = x.t.jar.take(x.origin, x.route, time.Now())
		}
		r.Header = x.fields(p.proof)
	}
	x.attempts++
	resp, err := cmp.Or(x.t.Base, http.DefaultTransport).RoundTrip(r)
	if err != nil || resp == nil {
		if p.proof != "" {
			x.t.jar.putBack(x.origin, p)
		}
		return resp, err
	}
	resp.Request = x.req
	if x.origin != "" {
		x.keep(resp, p)
	}
	return resp, nil
}

// fields returns the header to send.
func (x *exchange) fields(proof string) http.Header {
	var tokens []string
	tokens, x.sent = x.t.jar.show(x.origin, x.route)
	if len(tokens) == 0 && proof == "" {
		return x.req.Header
	}
	h := x.req.Header.Clone()
	if h == nil {
		h = make(http.Header)
	}
	if len(tokens) > 0 {
		h[tokenField] = tokens
	}
	if proof != "" {
		h[pow.ProofField] = []string{proof}
	}
	return h
}

// keep files the tokens of a response to a request with or without a proof. It puts the proof back where the
// response is a refusal without another challenge: the proof was not looked at, or it buys the same again.
func (x *exchange) keep(resp *http.Response, p paid) {
	r, refused := readRefusal(resp)
	proved := p.proof != ""
	if proved && refused && !r.challenged {
		x.t.jar.putBack(x.origin, p)
	}
	// With two policies around a handler, one may refuse what satisfies the
	// other.
	passed := !refused || r.challenged && kindOf(resp.Header, x.route) != p.kind
	left := remaining(resp.Header)
	if refused && left == unknown {
		left = 0
	}
	var tokens []kept
	for _, t := range readTokens(resp.Header) {
		k := kept{windowToken: t, sent: x.sent, route: x.route, room: left, spent: left == 0}
		if proved && passed {
			k.kind = p.kind
		}
		tokens = append(tokens, k)
	}
	sold := x.t.jar.keep(x.origin, tokens)
	switch {
	case !proved || !passed:
	case sold && x.place == nil:
		x.t.queues.restock(time.Now(), want{x.origin, p.kind})
	case sold:
		x.quit(bought)
	case resp.StatusCode < http.StatusInternalServerError: // else who knows
		x.quit(useless)
	}
}

// quit ends what this request does for others, if it does anything.
func (x *exchange) quit(how outcome) {
	if x.place != nil {
		x.t.queues.leave(time.Now(), x.place, how)
		x.place = nil
	}
}

// report tells the observer.
func (x *exchange) report(m move) {
	if x.t.Observe == nil {
		return
	}
	x.t.Observe(Event{
		Request: x.req,
		Status:  m.status,
		Attempt: x.attempts,
		Action:  m.action,
		Reason:  m.reason,
		Work:    m.challenge.Work,
		Wait:    m.wait,
	})
}
