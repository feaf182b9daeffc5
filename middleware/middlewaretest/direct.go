// SPDX-License-Identifier: Apache-2.0

package middlewaretest

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
)

// Direct returns a transport that calls a handler as a server would, without a network. The
// handler sees requests that come from addr: an IP address, or one with a port; "" is
// 192.0.2.1, as in package httptest. To a request for an https URL the connection is one of
// TLS. A handler that panics with [http.ErrAbortHandler] breaks the connection: the client
// gets an error.
//
// It is what to give a client of your own as its transport:
//
//	polite := &http.Client{Transport: &client.Transport{Base: middlewaretest.Direct(app, "203.0.113.1")}}
func Direct(h http.Handler, addr string) http.RoundTripper { return direct{h, addr} }

type direct struct {
	handler http.Handler
	addr    string
}

// peer returns what a server says of its peer.
func (d direct) peer() (string, error) {
	if d.addr == "" {
		return "192.0.2.1:1234", nil
	}
	if addr, err := netip.ParseAddr(d.addr); err == nil {
		return net.JoinHostPort(addr.String(), "1234"), nil
	}
	_, err := netip.ParseAddrPort(d.addr)
	return d.addr, err
}

// RoundTrip implements [http.RoundTripper].
func (d direct) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	peer, err := d.peer()
	if err != nil {
		return nil, fmt.Errorf("middlewaretest: %w", err)
	}
	r := req.Clone(req.Context())
	r.RemoteAddr, r.RequestURI = peer, req.URL.RequestURI()
	r.Host = cmp.Or(r.Host, req.URL.Host)
	if r.Header == nil {
		r.Header = http.Header{}
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	if req.URL.Scheme == "https" {
		r.TLS = &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true, ServerName: req.URL.Hostname()}
	}
	r.URL.Scheme, r.URL.Host, r.URL.User, r.URL.Fragment = "", "", nil, "" // as a server has it
	w := httptest.NewRecorder()
	defer func() {
		if what := recover(); what == http.ErrAbortHandler {
			resp, err = nil, io.ErrUnexpectedEOF
		} else if what != nil {
			panic(what)
		}
	}()
	d.handler.ServeHTTP(w, r)
	resp = w.Result()
	resp.Request = req
	return resp, nil
}
