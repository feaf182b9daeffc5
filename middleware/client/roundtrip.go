// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"net/http"
)

// RoundTrip implements [http.RoundTripper]. It sends a copy of req and, after a
// refusal, another; req itself is only read, and its Body is closed in any case.
//
// The response is the last one received. Its Request is req, without the fields
// that were added, so that printing it shows no token. An error is one of Base,
// or the cause of the end of the context while RoundTrip solved or waited.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x := newExchange(t, req)
	defer x.quit(gone)
	body := req.Body
	for {
		resp, err := x.send(body)
		if err != nil || resp == nil {
			return resp, err
		}
		m := x.decide(resp)
		if m.action != toSolve {
			x.quit(m.outcome())
		}
		if m.action == "" {
			return resp, nil
		}
		x.report(m)
		if m.action == toReturn {
			return resp, nil
		}
		hold(resp)
		reason, err := x.act(m)
		if err != nil {
			_ = resp.Body.Close() // the error that matters is the other one
			return nil, err
		}
		if reason == "" {
			if body, err = rewind(req); err != nil {
				reason = notRewindable
			}
		}
		if reason != "" {
			m.action, m.reason, m.wait = toReturn, reason, 0
			x.report(m)
			return resp, nil
		}
		_ = resp.Body.Close()
	}
}

// CloseIdleConnections calls the method of that name of Base, if it has one. So
// http.Client.CloseIdleConnections works through a Transport.
func (t *Transport) CloseIdleConnections() {
	if c, ok := cmp.Or(t.Base, http.DefaultTransport).(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
