// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"cmp"
	"io"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/httpfield"
)

// Transport sends requests at the pace of a [Pacer], and passes on to all what the responses
// say of their pace: a 429 or 503 with Retry-After, whole seconds or a date, a 429 that says
// nothing (a second), and on any response a RateLimit field, or x-ratelimit-remaining and
// x-ratelimit-reset fields, that leave nothing. No response is believed for longer than an
// hour. Use a Pacer for each service: a Transport does not ask where a request goes.
//
// It sends each request once. By choice it sends one again that was refused with 429 or 503,
// if that is safe; see Repeats. It is safe for concurrent use, and its fields must not change
// after the first request.
type Transport struct {
	// Pacer is required.
	Pacer *Pacer

	// Base sends the requests. Nil means http.DefaultTransport.
	Base http.RoundTripper

	// Costs tells what a request uses besides being one, such as an estimate of its tokens.
	// It must leave the body alone. Nil: nothing.
	Costs func(*http.Request) []Cost

	// Repeats is how often a request that was refused with 429 or 503 is sent again, behind
	// those that wait. It is, if the method is idempotent (RFC 9110, section 9.2.2) or the
	// request has an Idempotency-Key, and its body can be had again, by GetBody. Each time
	// it is charged and waits anew. Default: never.
	Repeats int
}

// RoundTrip implements [http.RoundTripper]. An error is one of Base, or one of [Pacer.Wait]:
// then the request was not sent. Where a pause could not be told to the counter, this process
// alone pauses, and the response is returned as it is.
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
