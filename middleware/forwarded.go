package middleware

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// There is no such thing as the real address of a client behind proxies, only a
// decision whom to believe. These functions believe the proxies they are told
// of, and read the list from the right: the last entry was written by the proxy
// that connected to us, the one before by the proxy that connected to that one.
// The first that is no trusted proxy is the client; all to its left is hearsay.
// The leftmost entry, which so many programs take, is whatever the client says.

// maxHops is how many entries are looked at. A longer chain of trusted proxies
// than this is a loop or an attack.
const maxHops = 16

// ForwardedFor identifies by the X-Forwarded-For header, as far as trusted
// proxies wrote it. trusted are the networks of the proxies, at least one.
//
// A peer outside of trusted is itself the client, whatever the header says; that is
// logged if it has a private address, for then it may be a proxy you forgot. If
// no untrusted address is found, because the header is missing or all of its
// addresses are trusted, the peer is the client, which is logged: a proxy may
// have forgotten the header, and then all its clients share one quota. An entry
// that is no address ends the walk: nobody can be told, and the request is
// refused.
func ForwardedFor(trusted ...netip.Prefix) (IdentityFunc, error) {
	return forwarded("X-Forwarded-For", parseForwardedFor, trusted)
}

// Forwarded is [ForwardedFor] for the header of RFC 7239. An obfuscated or
// unknown "for", which the RFC allows, is no address.
func Forwarded(trusted ...netip.Prefix) (IdentityFunc, error) {
	return forwarded("Forwarded", parseForwardedElement, trusted)
}

func forwarded(header string, parse func(string) (netip.Addr, bool), trusted []netip.Prefix) (IdentityFunc, error) {
	if err := checkTrusted(trusted); err != nil {
		return nil, err
	}
	trusted = slices.Clone(trusted)
	noHop := nobodyError(header + " from a trusted proxy holds what is no address, or more proxies than are believed")
	trusts := func(addr netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
	}
	return func(r *http.Request) (Identity, error) {
		addr, ok := peer(r)
		if !ok {
			return Identity{}, errNoAddress
		}
		if addr = addr.Unmap().WithZone(""); !trusts(addr) {
			id := Address(addr)
			if len(r.Header[header]) > 0 && local(addr) {
				id.doubt = header + " from a private address that is not among the trusted: if that is a proxy, its clients share one quota"
			}
			return id, nil
		}
		hops := 0
		for entry := range fromTheRight(r.Header[header]) {
			hop, ok := parse(entry)
			if hops++; !ok || hops > maxHops {
				return Identity{}, noHop
			}
			if hop = hop.Unmap().WithZone(""); !trusts(hop) {
				return Address(hop), nil
			}
		}
		id := Address(addr)
		id.doubt = "no client address in " + header + " from a trusted proxy; its clients share one quota"
		return id, nil
	}, nil
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

// fromTheRight yields the comma-separated entries of all lines, last first,
// looking at no more of them than is asked for.
func fromTheRight(lines []string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, line := range slices.Backward(lines) {
			for {
				comma := strings.LastIndexByte(line, ',')
				if !yield(strings.Trim(line[comma+1:], " \t")) {
					return
				}
				if comma < 0 {
					break
				}
				line = line[:comma]
			}
		}
	}
}

// parseForwardedFor parses an entry of X-Forwarded-For: an address, which some
// proxies write with a port.
func parseForwardedFor(s string) (netip.Addr, bool) {
	if len(s) > len("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255%zone-of-32-characters-in-length]:65535") {
		return netip.Addr{}, false
	}
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr, true
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr(), true
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			addr, err := netip.ParseAddr(inner)
			return addr, err == nil && addr.Is6()
		}
	}
	return netip.Addr{}, false
}

// parseForwardedElement parses a forwarded-element of RFC 7239, pairs separated
// by semicolons, and returns its "for".
//
// A quoted string may hold commas and semicolons, at which it has been cut: a
// proxy that writes down the Host it was sent, as in
//
//	for=192.0.2.1;host="x,for=198.51.100.7;y="
//
// lets its client write elements. The element is therefore taken only if every
// pair of it is well formed. A piece of a quoted string never is: it has the one
// quote without the other, and those that the client smuggles in have a
// backslash before them.
func parseForwardedElement(s string) (netip.Addr, bool) {
	var node string
	for pair := range strings.SplitSeq(s, ";") {
		pair = strings.Trim(pair, " \t")
		if pair == "" {
			continue // the grammar lets pairs be empty
		}
		name, value, _ := strings.Cut(pair, "=")
		value, ok := unquoted(value)
		if !ok || !isToken(name) {
			return netip.Addr{}, false
		}
		if strings.EqualFold(name, "for") {
			if node != "" {
				return netip.Addr{}, false // each parameter at most once
			}
			node = value
		}
	}
	if strings.Count(node, ":") > 1 && !strings.HasPrefix(node, "[") {
		return netip.Addr{}, false // IPv6 must be bracketed
	}
	return parseForwardedFor(node)
}

// unquoted returns the value of a token, or of a quoted string that needs no
// backslash.
func unquoted(s string) (value string, ok bool) {
	if inner, quoted := strings.CutPrefix(s, `"`); quoted {
		inner, quoted = strings.CutSuffix(inner, `"`)
		return inner, quoted && !strings.ContainsAny(inner, `"\`)
	}
	return s, isToken(s)
}

// isToken reports whether s is a token of RFC 9110 section 5.6.2.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		return c > '~' || !letter && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}
