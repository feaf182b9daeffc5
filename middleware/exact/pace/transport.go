// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"cmp"
	"io"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/httpfield"
)

// Transport sends requests at the pace of a [Pacer]. It tells all processes to pause after a
// 429 or 503 with Retry-After (whole seconds or a date), after a 429 without one (a second),
// and after any response whose RateLimit field, or x-ratelimit-remaining and
// x-ratelimit-reset fields, leave nothing. A response is believed for at most an hour. Use a
// Pacer for each service: a Transport does not look where a request goes.
//
// It sends each request once. With Repeats it retries a safe request that was refused with
// 429 or 503. It is safe for concurrent use, and its fields must not change after the first
// request.
type Transport struct {
	// Pacer is required.
	Pacer *Pacer

	// Base sends the requests. Nil means http.DefaultTransport.
	Base http.RoundTripper

	// Costs tells what a request uses besides being one, such as an estimate of its tokens.
	// It must leave the body alone. Nil: nothing.
	Costs func(*http.Request) []Cost

	// Repeats is how often a request that was refused with 429 or 503 is retried, behind
	// those that wait. The method must be idempotent (RFC 9110, section 9.2.2) or the
	// request have an Idempotency-Key, and GetBody must return its body. Each retry is
	// charged and waits anew. Default: 0.
	Repeats int
}

// RoundTrip implements [http.RoundTripper]. An error is of Base, or of [Pacer.Wait]: then the
// request was not sent, or not again. If the counter could not be told of a pause, this
// process alone pauses, and the response is returned.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var costs []Cost
	if t.Costs != nil {
		costs = t.Costs(req)
	}
	for left := t.Repeats; ; left-- {
		if err := t.Pacer.Wait(req.Context(), costs...); err != nil {
			if req.Body != nil {
				_ = req.Body.Close() // as every RoundTripper does
			}
			return nil, err
		}
		resp, err := cmp.Or(t.Base, http.DefaultTransport).RoundTrip(req)
		if err != nil {
			return resp, err
		}
		if wait := retryAfter(time.Now(), resp); wait > 0 {
			_ = t.Pacer.Pause(req.Context(), wait) // the next Wait meets the same error
		}
		if left <= 0 || !refused(resp) || !repeatable(req) {
			return resp, nil
		}
		again := req.Clone(req.Context())
		if req.GetBody != nil {
			if again.Body, err = req.GetBody(); err != nil {
				return resp, nil // the refusal is worth more
			}
		}
		// A few bytes are read, so that the connection serves again.
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
		_ = resp.Body.Close()
		req = again
	}
}

// CloseIdleConnections calls the method of that name of Base, if it has one. So
// http.Client.CloseIdleConnections works through a Transport.
func (t *Transport) CloseIdleConnections() {
	if c, ok := cmp.Or(t.Base, http.DefaultTransport).(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func refused(resp *http.Response) bool {
	return resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable
}

// repeatable reports whether it does no harm to send a request twice, and whether that can be
// done.
func repeatable(req *http.Request) bool {
	if req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
		return false
	}
	return httpfield.Idempotent(req.Method) || req.Header.Get("Idempotency-Key") != ""
}
