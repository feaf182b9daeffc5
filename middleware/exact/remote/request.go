// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// A sender makes requests.
type sender struct {
	keys      ring
	transport http.RoundTripper
	now       func() time.Time
}

// A peer is an owner as a caller knows it.
type peer struct {
	url   string
	to    *url.URL     // the same, parsed
	name  string       // the same in errors: without a query, which may have a secret
	ahead atomic.Int64 // ms that its clock is ahead of ours, by its last answer

	// Refunds leave apart: a request with a refund is never repeated unseen.
	calls, refunds lane
}

// fault names the owner that an error is about: an operator must find the one among ten.
func (o *peer) fault(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", o.name, err)
}

// send asks an owner for some calls, and once more if our clocks do not agree: its answer says
// what time it is there. Each waiter is told what became of its call as soon as that is heard.
func (s *sender) send(ctx context.Context, o *peer, groups []group, heard func()) {
	waiting := slices.Concat(groups...)
	tell := func(a *answer) error {
		heard()
		for i := range a.Verdicts {
			v := &a.Verdicts[i]
			if v.N < 0 || v.N >= len(waiting) || waiting[v.N] == nil {
				return fmt.Errorf("%w: the owner has answered another call", exact.ErrMaybeCounted)
			}
			waiting[v.N].done <- outcomeOf(waiting[v.N], v)
			waiting[v.N] = nil
		}
		return nil
	}
	q := requestOf(groups)
	err := s.ask(ctx, o, q, groups, tell)
	if errors.Is(err, errStale) {
		err = s.ask(ctx, o, q, groups, tell)
	}
	if err == nil {
		err = fmt.Errorf("%w: the answer was cut", exact.ErrMaybeCounted)
	}
	for _, w := range waiting {
		if w != nil {
			w.done <- outcome{err: err}
		}
	}
}

// requestOf writes calls down, without their policies.
func requestOf(groups []group) *request {
	q := &request{Calls: make([]call, len(groups))}
	for i, g := range groups {
		w := g[0]
		c := call{
			Op: w.op, Key: encode(w.call.Key), Past: w.call.Past,
			Ahead: w.call.Ahead.Microseconds(), Pause: w.call.Pause.Microseconds(), Receipt: w.receipt,
		}
		c.price(&w.call)
		for _, w := range g {
			if w.op != opTake {
				break
			}
			id := w.call.ID
			if id == "" {
				id = rand.Text() // what makes a recorded request worth nothing
			}
			c.IDs = append(c.IDs, encode(id))
		}
		for _, w := range g {
			wait := maxWait
			if deadline, ok := w.ctx.Deadline(); ok {
				wait = min(maxWait, max(time.Millisecond, time.Until(deadline)))
			}
			c.Wait = max(c.Wait, wait.Milliseconds())
		}
		q.Calls[i] = c
	}
	return q
}

// date adds the time and the policies: each once, as it is then or, for a refund, was when the charge was made.
func (q *request) date(now time.Time, groups []group) {
	type dated struct {
		policy *exact.Policy
		at     int64
	}
	var policies []dated
	q.At, q.Policies = now.UnixMilli(), nil
	for i, g := range groups {
		of, at := dated{policy: g[0].call.Policy}, now
		if g[0].receipt != nil && of.policy.Plan().HasCalendar {
			at, of.at = g[0].charged, g[0].charged.UnixNano()
		}
		c := &q.Calls[i]
		if c.Policy = slices.Index(policies, of); c.Policy < 0 {
			c.Policy = len(policies)
			policies = append(policies, of)
			q.Policies = append(q.Policies, encodePolicy(of.policy, at))
		}
	}
}

// errStale says that an owner has another time than we thought.
var errStale = fmt.Errorf("%w: the owner says %q", exact.ErrNotCounted, staleError)

// ask sends a request, and tells of each line that its owner has signed.
func (s *sender) ask(ctx context.Context, o *peer, q *request, groups []group, tell func(*answer) error) (err error) {
	defer func() {
		if r := recover(); r != nil { // of a Transport; in this goroutine it would end the program
			err = fmt.Errorf("%w: the transport panics: %v", exact.ErrMaybeCounted, r)
		}
	}()
	q.date(s.now().Add(time.Duration(o.ahead.Load())*time.Millisecond), groups)
	text, err := json.Marshal(q)
	if err != nil {
		panic(err) // strings and integers
	}
	digest := digestOf(text)
	sum := s.keys.sign(requestLabel, "", []byte(digest))
	sent := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent = true }})
	resp, err := s.transport.RoundTrip(newRequest(ctx, o, text, digest, sum, q.Calls[0].Op != opRefund))
	switch {
	case err != nil && !sent:
		return fmt.Errorf("%w: the owner cannot be reached: %w", exact.ErrNotCounted, err)
	case err != nil:
		return fmt.Errorf("%w: %w", exact.ErrMaybeCounted, err)
	}
	defer resp.Body.Close()
	room := int64(4 << 10)
	if resp.ContentLength >= 0 {
		room = min(resp.ContentLength+1, maxAnswer)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, room), maxAnswer)
	for n := 0; lines.Scan(); n++ {
		var a answer
		line := lines.Bytes()
		switch {
		case resp.StatusCode == http.StatusUnauthorized:
			return fmt.Errorf("%w: it answers 401: its secrets differ from this process's", exact.ErrMaybeCounted)
		case n == maxIDs, len(line) < macLen+1, line[macLen] != ' ', !s.keys.verifies(answerLabel, sum, line[macLen+1:], string(line[:macLen])):
			// A proxy's page. The owner has said nothing.
			return fmt.Errorf("%w: the answer, with status %d, is not signed with a secret of this process: is it the counter?", exact.ErrMaybeCounted, resp.StatusCode)
		case json.Unmarshal(line[macLen+1:], &a) != nil:
			return fmt.Errorf("%w: the answer is malformed", exact.ErrMaybeCounted)
		}
		o.ahead.Store(a.At - s.now().UnixMilli())
		if a.Error == staleError {
			return errStale
		}
		if a.Error != "" {
			return errorNamed(a.Error)
		}
		if err := tell(&a); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: the answer was cut: %w", exact.ErrMaybeCounted, err)
	}
	return nil
}

// newRequest makes the request that sends a text. One that may be repeated is by http.Transport
// where the connection that it has kept turns out to be closed: it hears the field, which is not
// sent. The IDs see to the rest. A refund that is repeated unseen would say that there was
// nothing to give back.
func newRequest(ctx context.Context, o *peer, text []byte, digest, sum string, again bool) *http.Request {
	to := *o.to
	r := &http.Request{
		Method: http.MethodPost, URL: &to, Host: to.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}, "User-Agent": {""}, digestField: {digest}, macField: {sum}},
		GetBody:       func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil },
		ContentLength: int64(len(text)),
	}
	r.Body, _ = r.GetBody()
	if again {
		r.Header["X-Idempotency-Key"] = []string{}
	}
	return r.WithContext(ctx)
}

// outcomeOf reads what became of a call.
func outcomeOf(w *waiter, v *verdict) (o outcome) {
	switch {
	case v.Error != "":
		o.verdict.Wait = time.Duration(v.Wait) * time.Microsecond // until there is room
		o.err = errorNamed(v.Error)
		return o
	case w.op == opRefund:
		return o
	case len(v.Limits) != w.call.Policy.Len():
		return outcome{err: fmt.Errorf("%w: the owner has answered %d limits of %d", exact.ErrMaybeCounted, len(v.Limits), w.call.Policy.Len())}
	}
	o.verdict.Admitted, o.verdict.Impossible, o.verdict.Replayed = v.Admitted, v.Impossible, v.Replayed
	o.verdict.Wait = time.Duration(v.Wait) * time.Microsecond
	for j, s := range v.Limits {
		o.verdict.Limits[j] = storeless.LimitStatus{Remaining: s[0], Reset: time.Duration(s[1]) * time.Second, Blocked: s[2] == 1}
	}
	if v.Receipt == nil {
		return o
	}
	at, err := strconv.ParseInt(v.Receipt.At, 10, 64)
	if err != nil {
		return outcome{err: fmt.Errorf("%w: a receipt without a time", exact.ErrMaybeCounted)}
	}
	o.verdict.Receipt = exact.Receipt{Key: w.call.Key, Cost: v.Cost, Costs: w.call.Costs, Policy: w.call.Policy, At: time.Unix(0, at), Serial: v.Receipt.Serial}
	return o
}
