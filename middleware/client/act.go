// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/pow"
)

// act does what was decided. A reason means that it failed, and the caller gets
// the refusal. An error means that the context is done.
func (x *exchange) act(m move) (string, error) {
	if m.action == toWait {
		x.waited += m.wait
		return "", x.sleep(m.wait)
	}
	return x.prove(m)
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

// prove gets the request what its next send needs: a proof of its own, or a token
// that another request has bought since. A reason means that the challenge has no
// answer; an error, that the request's context is done.
func (x *exchange) prove(m move) (string, error) {
	if x.shared && m.status == http.StatusForbidden && x.kind == m.kind {
		// It has shown what another bought and is still asked for a proof: here a
		// proof buys one request. (A 429 means that the token was good and is
		// spent.)
		x.alone = true
	}
	if x.tries >= cmp.Or(x.t.MaxAttempts, defaultAttempts) {
		x.alone = true // the tokens of others have not helped so far
	}
	switch {
	case x.kind != m.kind:
		x.quit(served) // at the one gate; this is the next
	case x.alone:
		x.quit(gone)
	}
	x.kind, x.shared = m.kind, false
	if !x.alone {
		to, err := x.queue(m)
		switch {
		case err != nil:
			return "", err
		case to == trying, to == looking:
			x.tries++
			x.shared = x.t.jar.boughtSince(x.origin, x.kind, x.sent)
			return "", nil
		}
		x.alone = to == alone
	}
	return x.pay(m)
}

// queue waits until the request is called: to pay, or to send again.
func (x *exchange) queue(m move) (role, error) {
	p := x.place
	if p == nil {
		p = &place{of: want{x.origin, x.kind}, called: make(chan role, 1)}
		x.place = p
	}
	p.sent, p.again, p.expires, p.ttl = x.sent, x.tries > 0, m.expires, m.challenge.TTL
	to := x.t.queues.come(time.Now(), p, &x.t.jar)
	if to != waiting {
		return to, nil
	}
	timer := time.NewTimer(p.ttl)
	defer timer.Stop()
	for {
		select {
		case to := <-p.called:
			return to, nil
		case <-timer.C:
			to, longer := x.t.queues.overdue(time.Now(), p)
			if to != waiting {
				return to, nil
			}
			timer.Reset(longer)
		case <-x.req.Context().Done():
			return waiting, context.Cause(x.req.Context())
		}
	}
}

// pay solves the challenge, while that lives, unless there is a proof that another request has left.
func (x *exchange) pay(m move) (string, error) {
	if x.paid = x.t.jar.take(x.origin, x.route, time.Now()); x.paid.proof != "" {
		return "", nil
	}
	ctx, cancel := context.WithDeadline(x.req.Context(), m.expires)
	defer cancel()
	proof, err := x.solve(ctx, &m.challenge)
	switch {
	case err == nil:
		x.paid, x.answered = paid{proof, x.route, m.kind, m.expires}, m.challenge.Text
		return "", nil
	case x.req.Context().Err() != nil:
		return "", context.Cause(x.req.Context())
	case ctx.Err() != nil:
		return "", nil // without a proof the server sends another challenge
	}
	return badChallenge, nil
}

// solve solves one challenge at a time: two in parallel would both be late.
func (x *exchange) solve(ctx context.Context, c *pow.Challenge) (proof string, err error) {
	if err := x.t.solver.take(ctx); err != nil {
		return "", err
	}
	defer x.t.solver.pass()
	x.solves++
	return pow.Solve(ctx, c.Text, pow.SolveOptions{MaxWork: x.t.MaxWork, Workers: x.t.Workers})
}
