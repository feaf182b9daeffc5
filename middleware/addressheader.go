// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"errors"
	"net/netip"

	"github.com/tallystick/tallystick/middleware/internal/httpfield"
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
	t, err := addressField(header)
	if err == nil && t.List {
		err = &ConfigError{Field: "header", Problem: t.Name + " is a list: use ForwardedFor or Forwarded"}
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
	t, err := addressField(header)
	if len(trusted) > 0 {
		err = errors.Join(err, checkTrusted(trusted))
	}
	if err != nil {
		return nil, err
	}
	return believing(t, trusted, true), nil
}

// addressField returns the field of the given name.
func addressField(header string) (httpfield.AddressField, error) {
	if !httpfield.IsToken(header) {
		return httpfield.AddressField{}, &ConfigError{Field: "header", Problem: "must be the name of a header field"}
	}
	return httpfield.AddressFieldNamed(header), nil
}
