package client

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/pow"
)

// exchange is one RoundTrip: a request and what has been done for it so far.
type exchange struct {
	t      *Transport
	req    *http.Request
	origin string // "" if none of our fields are sent or kept
	route  uint64

	attempts int
	solves   int
	waited   time.Duration

	sent     uint64    // number of the last send
	kind     uint64    // of the challenge met last
	proof    string    // for the next send
	answered string    // the challenge answered last
	buying   *purchase // that others wait for, or nil
	shared   bool      // another's purchase is shown with the next send, or was with the last
	alone    bool      // another's purchase does not help
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
	proof := x.proof
	x.proof = ""
	if x.origin != "" {
		r.Header = x.fields(proof)
	}
	x.attempts++
	resp, err := x.t.base().RoundTrip(r)
	if err != nil || resp == nil {
		return resp, err
	}
	resp.Request = x.req
	if x.origin != "" {
		_, refused := readRefusal(resp)
		x.keep(resp.Header, proof != "" && !refused)
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

// keep files the tokens of a response; paid says that they were bought.
func (x *exchange) keep(h http.Header, paid bool) {
	var tokens []kept
	for _, t := range readTokens(h) {
		k := kept{windowToken: t, sent: x.sent, route: x.route}
		if paid {
			k.kind = x.kind
		}
		tokens = append(tokens, k)
	}
	x.t.jar.keep(x.origin, paid, tokens)
	if paid {
		x.finish(true)
	}
}

// finish ends the purchase that others wait for, if this request has one.
func (x *exchange) finish(paid bool) {
	if x.buying != nil {
		x.t.purchases.end(x.buying, paid)
		x.buying = nil
	}
}

// leave must be called in the end, whatever happened.
func (x *exchange) leave() { x.finish(false) }

// act does what was decided. A reason means that it came to nothing and the
// refusal is the caller's; an error, that the context is done.
func (x *exchange) act(m move) (Reason, error) {
	if m.action == Waiting {
		x.finish(false) // nobody need wait for one who waits
		x.waited += m.wait
		return "", x.sleep(m.wait)
	}
	ctx, cancel := context.WithDeadline(x.req.Context(), m.expires)
	defer cancel()
	reason, err := x.prove(ctx, m)
	if err == nil {
		return reason, nil
	}
	if x.req.Context().Err() != nil {
		return "", context.Cause(x.req.Context())
	}
	// Only the challenge has expired. Without a proof the server sends another.
	return "", nil
}

func (x *exchange) sleep(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-x.req.Context().Done():
		return context.Cause(x.req.Context())
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
