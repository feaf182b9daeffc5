// SPDX-License-Identifier: Apache-2.0

package clienttest

import (
	"net"
	"net/http"
	"net/netip"
)

// origin returns the origin that a request was sent to, or another one that leads here too:
// a name is another origin than its address.
func origin(r *http.Request, another bool) string {
	scheme, host := "http://", r.Host
	if r.TLS != nil {
		scheme = "https://"
	}
	if another {
		host = otherHost(host)
	}
	return scheme + host
}

const loopback, loopbackName = "127.0.0.1", "localhost"

func otherHost(host string) string {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	switch _, err := netip.ParseAddr(name); {
	case err == nil:
		name = loopbackName
	case name == loopbackName:
		name = loopback
	default:
		name = "other." + name
	}
	if port == "" {
		return name
	}
	return net.JoinHostPort(name, port)
}
