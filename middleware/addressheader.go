package middleware

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
)

// AddressFromHeader identifies by a header in which trusted proxies name their client,
// such as Fly-Client-IP, CF-Connecting-IP or X-Real-IP: one line that holds one address.
// trusted are the networks of the proxies, at least one. X-Forwarded-For and Forwarded
// are lists, for which see [ForwardedFor] and [Forwarded].
//
// A peer outside of trusted is itself the client, whatever the header says. Without the
// header a trusted peer is the client, which is logged as ForwardedFor does. More lines
// than one, a list, an empty value and whatever else is no address are refused: one of
// two addresses is of the client's choosing.
//
// The proxy must set the header and not pass on what a client has sent; docs/platforms.md
// says which do, and how to try it.
func AddressFromHeader(header string, trusted ...netip.Prefix) (IdentityFunc, error) {
	t, err := testimonyIn(header)
	if err == nil && t.list {
		err = &ConfigError{Field: "header", Problem: t.name + " is a list: use ForwardedFor or Forwarded"}
	}
	if err := errors.Join(err, checkTrusted(trusted)); err != nil {
		return nil, err
	}
	return believing(t, trusted, false), nil
}

// InsecureNoPeer identifies as [ForwardedFor], [Forwarded] or [AddressFromHeader] do,
// whichever the header is for, but also believes it where the connection has no address:
// on a Unix socket, or where an adapter leaves RemoteAddr empty, as those for Lambda
// behind an ALB do. trusted may be empty. There, a request without the header is refused.
//
// Nothing is known of who wrote the header. Whatever reaches the handler by another way
// than that proxy can pose as anyone and has no limit: who may connect to the socket, or
// invoke the function, is all that protects it.
func InsecureNoPeer(header string, trusted ...netip.Prefix) (IdentityFunc, error) {
	t, err := testimonyIn(header)
	if len(trusted) > 0 {
		err = errors.Join(err, checkTrusted(trusted))
	}
	if err != nil {
		return nil, err
	}
	return believing(t, trusted, true), nil
}

// testimonyIn returns the field of the given name.
func testimonyIn(header string) (testimony, error) {
	if !isToken(header) {
		return testimony{}, &ConfigError{Field: "header", Problem: "must be the name of a header field"}
	}
	switch name := http.CanonicalHeaderKey(header); name {
	case forwardedFor.name:
		return forwardedFor, nil
	case forwardedElements.name:
		return forwardedElements, nil
	default:
		return testimony{name: name, longest: longestAddress, parse: parseForwardedFor}, nil
	}
}

// only reads a field of one address.
func (t *testimony) only(lines []string) (netip.Addr, bool) {
	switch {
	case len(lines) == 0:
		return netip.Addr{}, true
	case len(lines) > 1 || len(lines[0]) > t.longest:
		return netip.Addr{}, false
	}
	return t.parse(strings.Trim(lines[0], " \t"))
}

// unnamed reports whether a RemoteAddr is that of a connection without an address: empty,
// or as net/http spells a client of a Unix socket that has no name. Everything else that
// is no address may have come from anywhere.
func unnamed(remote string) bool { return remote == "" || remote == "@" }
