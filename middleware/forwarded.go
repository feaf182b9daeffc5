// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tallystick/tallystick/middleware/internal/httpfield"
)

// There is no such thing as the real address of a client behind proxies, only a
// decision whom to believe. These functions believe the proxies they are told
// of, and read the list from the right: the last entry was written by the proxy
// that connected to us, the one before by the proxy that connected to that one.
// The first that is no trusted proxy is the client; all to its left is hearsay.
// The leftmost entry, which so many programs take, is whatever the client says.

// ForwardedFor identifies by the X-Forwarded-For header, as far as trusted
// proxies wrote it. trusted are the networks of the proxies, at least one.
//
// A peer outside of trusted is itself the client, whatever the header says. If
// no untrusted address is found, because the header is missing or all of its
// addresses are trusted, the peer is the client, which is logged: a proxy may
// have forgotten the header, and then all its clients share one quota. It is logged in
// other words if the header has been there at times: then it may be that the clients
// write it. An entry that is no address ends the walk: nobody can be told, and the
// request is refused. An empty entry
// before an address does so too; a field of empty entries alone is as if missing.
func ForwardedFor(trusted ...netip.Prefix) (IdentityFunc, error) {
	if err := checkTrusted(trusted); err != nil {
		return nil, err
	}
	return believing(httpfield.AddressFieldNamed("X-Forwarded-For"), trusted, false), nil
}

// Forwarded is [ForwardedFor] for the header of RFC 7239. An obfuscated or
// unknown "for", which the RFC allows, is no address.
func Forwarded(trusted ...netip.Prefix) (IdentityFunc, error) {
	if err := checkTrusted(trusted); err != nil {
		return nil, err
	}
	return believing(httpfield.AddressFieldNamed("Forwarded"), trusted, false), nil
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
		missing    = doubt{proxySilent, "no client address in " + t.Name + " from a trusted proxy; its clients share one quota"}
		ours       = doubt{proxySilent, t.Name + " names trusted proxies alone, as of a request from a proxy's own machine; all clients that it names so share one quota"}
		sometimes  = doubt{proxyForgetful, t.Name + " comes from trusted proxies with some requests and not with others: if those are no health checks, the proxy may pass on what its clients write, and they can pose as anyone; have it set the field"}
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
			return Identity{}, errNoAddress
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
		switch id.doubt = &missing; {
		case slices.ContainsFunc(lines, func(line string) bool { return strings.Trim(line, " \t,") != "" }):
			id.doubt = &ours
		case len(lines) == 0 && seen.Load():
			id.doubt = &sometimes
		}
		return id, nil
	}
}

// checkTrusted reports every problem of the networks of one's proxies.
func checkTrusted(trusted []netip.Prefix) error {
	if len(trusted) == 0 {
		return &ConfigError{Field: "trusted", Problem: "name the networks of your proxies; without any, use PeerAddress"}
	}
	var errs []error
	for i, p := range trusted {
		field := fmt.Sprintf("trusted[%d]", i)
		switch {
		case !p.IsValid():
			errs = append(errs, &ConfigError{Field: field, Problem: "is not a valid prefix"})
		case p.Bits() == 0:
			errs = append(errs, &ConfigError{Field: field, Problem: "trusts the whole Internet, so that anyone could pose as anyone"})
		case p.Addr().Is4In6():
			errs = append(errs, &ConfigError{Field: field, Problem: "would match nothing: write an IPv4 network as IPv4"})
		}
	}
	return errors.Join(errs...)
}
