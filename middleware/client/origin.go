// SPDX-License-Identifier: Apache-2.0

package client

import (
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxAuthority is the longest host with port, in bytes, that tokens are kept for:
// the longest name DNS has, and a port.
const maxAuthority = 253 + len(":65535")

// originOf returns the jar's key for the tokens of req, or "" to keep none. It
// is the origin of RFC 6454 and, where the request overrides it, the Host field:
// two sites behind one address are two sites.
func originOf(req *http.Request) string {
	u := req.URL
	if u == nil || u.Host == "" || len(u.Host) > maxAuthority || len(req.Host) > maxAuthority {
		return ""
	}
	scheme := strings.ToLower(u.Scheme)
	at := authority(scheme, u.Host)
	origin := scheme + "://" + at
	if req.Host != "" {
		if as := authority(scheme, req.Host); as != at {
			origin += " " + as
		}
	}
	return origin
}

// authority spells a host with its port in one way.
func authority(scheme, hostport string) string {
	u := url.URL{Host: hostport}
	port := u.Port()
	if port == "" {
		switch scheme {
		case "http":
			port = "80"
		case "https":
			port = "443"
		}
	}
	return strings.ToLower(u.Hostname()) + " " + port
}

// routeOf tells apart requests that probably have different policies. It is a
// hash, because a path can be long; a collision only spoils the order.
func routeOf(req *http.Request) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, req.Method)
	if req.URL != nil {
		_, _ = io.WriteString(h, " "+req.URL.Path)
	}
	return h.Sum64()
}
