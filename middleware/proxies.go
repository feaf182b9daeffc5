// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tallystick/tallystick/middleware/internal/httpfield"
	"github.com/tallystick/tallystick/storeless"
)

// There is no such thing as the real address of a client behind proxies, only a decision whom to
// believe. These functions believe the proxies they are told of, and read the list from the right:
// the last entry was written by the proxy that connected to us, the one before by the proxy that
// connected to that one. The first that is no trusted proxy is the client; all to its left is
// hearsay. The leftmost entry, which many programs take, is whatever the client says.

// ForwardedFor is [AddressFromHeader] for X-Forwarded-For.
func ForwardedFor(trusted ...netip.Prefix) (IdentityFunc, error) {
	return AddressFromHeader("X-Forwarded-For", trusted...)
}

// believing returns an identity function that believes a field if a trusted peer sends
// it. If peerless, it believes connections without an address too.
func believing(t httpfield.AddressField, trusted []netip.Prefix, peerless bool) IdentityFunc {
	trusted = slices.Clone(trusted)
	trusts := func(addr netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
	}
	var (
		errGarbage = nobodyError(t.Name + " from a trusted proxy holds something that is not an address, two addresses where one belongs, or more proxies than are believed")
		errMissing = nobodyError("no client address in " + t.Name + ", and the connection has none")
		missing    = proxyWarning{false, "no client address in " + t.Name + " from a trusted proxy; its clients share one quota"}
		ours       = proxyWarning{false, t.Name + " names trusted proxies alone, as of a request from a proxy's own machine; all clients that it names so share one quota"}
		sometimes  = proxyWarning{true, t.Name + " comes from trusted proxies with some requests and not with others: if those are no health checks, the proxy may pass on what its clients write, and they can pose as anyone"}
	)
	var seen atomic.Bool // a trusted peer has sent the field
	return func(r *http.Request) (Identity, error) {
		from, ok := peer(r)
		switch {
		case ok:
			if from = from.Unmap().WithZone(""); !trusts(from) {
				return Address(from), nil
			}
		case !peerless || !unnamed(r.RemoteAddr):
			return Identity{}, noPeer(r)
		}
		lines := r.Header[t.Name]
		if len(lines) > 0 && !seen.Load() {
			seen.Store(true)
		}
		client, ok := t.Client(lines, trusts)
		switch {
		case !ok:
			return Identity{}, errGarbage
		case client.IsValid():
			return Address(client), nil
		case !from.IsValid():
			return Identity{}, errMissing
		}
		id := Address(from)
		switch id.proxyWarning = &missing; {
		case slices.ContainsFunc(lines, func(line string) bool { return strings.Trim(line, " \t,") != "" }):
			id.proxyWarning = &ours
		case len(lines) == 0 && seen.Load():
			id.proxyWarning = &sometimes
		}
		return id, nil
	}
}

// checkTrusted reports every problem of the networks of one's proxies.
func checkTrusted(trusted []netip.Prefix) error {
	if len(trusted) == 0 {
		return &storeless.ConfigError{Field: "trusted", Problem: "name the networks of your proxies; without any, use PeerAddress"}
	}
	var errs []error
	for i, p := range trusted {
		field := fmt.Sprintf("trusted[%d]", i)
		switch {
		case !p.IsValid():
			errs = append(errs, &storeless.ConfigError{Field: field, Problem: "is not a valid prefix"})
		case p.Bits() == 0:
			errs = append(errs, &storeless.ConfigError{Field: field, Problem: "trusts the whole Internet, so that anyone could pose as anyone"})
		case p.Addr().Is4In6():
			errs = append(errs, &storeless.ConfigError{Field: field, Problem: "would match nothing: write an IPv4 network as IPv4"})
		}
	}
	return told(errs...)
}

// AddressFromHeader identifies by a header in which trusted proxies name their client,
// as far as they wrote it. trusted are the networks of the proxies, at least one.
//
// A peer outside of trusted is itself the client, whatever the header says. Without the
// header a trusted peer is the client, which is logged: a proxy may have forgotten it, and then
// all its clients share one quota. It is logged in other words if the header has been there at
// times: then it may be that the clients write it.
//
// X-Forwarded-For and Forwarded (RFC 7239) are lists. The client is the last address that is not
// trusted; if all are, it is the peer, which is logged too. An entry that is no address ends the
// walk: the client is unknown, and the request is refused. So does an empty entry before an
// address; a field of empty entries alone is as if missing. An obfuscated or unknown "for", which
// the RFC allows, is no address.
//
// Any other header, such as Fly-Client-IP, CF-Connecting-IP or X-Real-IP, is one line that holds
// one address. More lines than one, a list, an empty value and whatever else is no address are
// refused: one of two addresses is of the client's choosing. The proxy must set the header and not
// pass on what a client has sent; docs/operations.md says which do, and how to try it.
func AddressFromHeader(header string, trusted ...netip.Prefix) (IdentityFunc, error) {
	t, err := addressField(header)
	if err := told(err, checkTrusted(trusted)); err != nil {
		return nil, err
	}
	return believing(t, trusted, false), nil
}

// InsecureNoPeer identifies as [AddressFromHeader] does,
// but also believes the header where the connection has no address:
// on a Unix socket, or where an adapter leaves RemoteAddr empty, as those for Lambda
// behind an ALB do. trusted may be empty. There, a request without the header is refused.
//
// The writer of the header is unknown. A request that reaches the handler by another way than that
// proxy can pose as anyone and has no limit. Its only protection is the permission to connect to
// the socket, or to invoke the function.
func InsecureNoPeer(header string, trusted ...netip.Prefix) (IdentityFunc, error) {
	t, err := addressField(header)
	if len(trusted) > 0 {
		err = told(err, checkTrusted(trusted))
	}
	if err != nil {
		return nil, err
	}
	return believing(t, trusted, true), nil
}

// addressField returns the field of the given name.
func addressField(header string) (httpfield.AddressField, error) {
	if !httpfield.IsToken(header) {
		return httpfield.AddressField{}, &storeless.ConfigError{Field: "header", Problem: "must be the name of a header field"}
	}
	return httpfield.AddressFieldNamed(header), nil
}

// unnamed reports whether a RemoteAddr belongs to a connection without an address: it is empty, or
// as net/http spells a client of a Unix socket that has no name. Everything else that is no address
// may have come from anywhere.
func unnamed(remote string) bool { return remote == "" || remote == "@" }
