// SPDX-License-Identifier: Apache-2.0

package middlewaretest

import (
	"net/http"
	"net/http/cookiejar"

	"github.com/tallystick/tallystick/middleware/client"
)

// Browser returns an honest browser at an address, see [Direct], for pages of the site
// itself: it keeps cookies, follows redirects and prefers HTML. It runs no script: [Buy]
// does what the element on a page would. Give it https URLs, or it will not show cookies
// that are Secure. Any host will do.
func Browser(h http.Handler, addr string) *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		panic(err) // it is never one, without options
	}
	return &http.Client{Jar: jar, Transport: browsing{Direct(h, addr)}}
}

// browsing adds the fields of a browser.
type browsing struct{ http.RoundTripper }

func (b browsing) RoundTrip(req *http.Request) (*http.Response, error) {
	r := req.Clone(req.Context())
	if r.Header == nil {
		r.Header = http.Header{}
	}
	for name, value := range map[string]string{
		"Accept":         "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
		"Sec-Fetch-Site": "same-origin",
	} {
		if r.Header[name] == nil {
			r.Header.Set(name, value)
		}
	}
	resp, err := b.RoundTripper.RoundTrip(r)
	if resp != nil {
		resp.Request = req
	}
	return resp, err
}

// Script returns an honest program at an address, see [Direct]: it shows the tokens that it was
// given, in the Tallystick-Token field. A refusal comes back as it is, without work or a wait; for
// a client that does both see [Direct].
func Script(h http.Handler, addr string) *http.Client {
	return &http.Client{Transport: &client.Transport{Base: Direct(h, addr), MaxSolves: -1, MaxWait: -1}}
}

// Forgetful returns a client at an address, see [Direct], that drops what it is given: every
// token and every cookie. Only the memory of the server limits it.
func Forgetful(h http.Handler, addr string) *http.Client {
	return &http.Client{Transport: Direct(h, addr)}
}
