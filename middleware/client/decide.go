// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/httpfield"
)

// decide says what to do about a response. It does nothing itself.
//
// A challenge comes before a wait: the server offers both where work is a way
// around the wait.
func (x *exchange) decide(resp *http.Response) move {
	r, ok := readRefusal(resp)
	if !ok {
		return move{status: resp.StatusCode}
	}
	m := move{action: toReturn, status: r.status, challenge: r.challenge}
	if m.reason = x.mayNotResend(&r); m.reason != "" {
		return m
	}
	if r.challenged {
		if m.reason = x.mayNotSolve(&r); m.reason == "" {
			m.action, m.kind = toSolve, kindOf(resp.Header, x.route)
			m.expires = time.Now().Add(r.challenge.TTL)
			return m
		}
		if r.status == http.StatusForbidden {
			return m // a wait does not replace a proof
		}
	}
	if r.wait == 0 {
		if m.reason == "" {
			m.reason = noAdvice
		}
		return m
	}
	most := x.patience()
	if r.wait > most {
		if m.reason == "" {
			m.reason, m.wait = waitTooLong, r.wait
		}
		return m
	}
	m.action, m.reason, m.wait = toWait, "", jitter(r.wait, most)
	return m
}

// outcome says what a response means to waiting requests, unless it is a
// challenge that is answered.
func (m *move) outcome() outcome {
	switch {
	case m.action == "" && m.status < http.StatusInternalServerError:
		return served
	case m.status == http.StatusServiceUnavailable:
		return gone // load, and no reason to add to it
	case m.action == toWait, m.reason == tooMuchWork, m.reason == waitTooLong, m.reason == noAdvice:
		return closed
	}
	return gone
}

// mayNotResend returns why the request may not be sent again, or nothing.
func (x *exchange) mayNotResend(r *refusal) string {
	switch {
	case !rewindable(x.req):
		return notRewindable
	case r.status == http.StatusServiceUnavailable && !httpfield.Idempotent(x.req.Method):
		return maybeProcessed
	case x.attempts-x.tries >= cmp.Or(x.t.MaxAttempts, defaultAttempts):
		return noMoreAttempts
	}
	return ""
}

// mayNotSolve returns why a challenge is not to be solved, or nothing.
func (x *exchange) mayNotSolve(r *refusal) string {
	c := &r.challenge
	switch {
	case x.origin == "":
		return callerManaged
	case c.Text == "", c.TTL <= 0, c.Text == x.answered:
		return badChallenge
	case c.Work > cmp.Or(x.t.MaxWork, defaultWork):
		return tooMuchWork
	case x.solves >= cmp.Or(x.t.MaxSolves, defaultSolves):
		return noMoreSolves
	}
	return ""
}

// patience returns the longest wait that is still worth it: a request whose
// context ends with the wait could not be sent any more.
func (x *exchange) patience() time.Duration {
	most := cmp.Or(x.t.MaxWait, defaultWait) - x.waited
	if deadline, ok := x.req.Context().Deadline(); ok {
		most = min(most, time.Until(deadline)-time.Nanosecond)
	}
	return most
}
