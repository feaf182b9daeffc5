package middleware

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
)

// There is no such thing as the real address of a client behind proxies, only a
// decision whom to believe. These functions believe the proxies they are told
// of, and read the list from the right: the last entry was written by the proxy
// that connected to us, the one before by the proxy that connected to that one.
// The first that is no trusted proxy is the client; all to its left is hearsay.
// The leftmost entry, which so many programs take, is whatever the client says.

const (
	// maxHops is how many entries are looked at, the empty ones included. A longer
	// chain of trusted proxies than this is a loop or an attack.
	maxHops = 16

	// These are how long an entry may be: that is how much of the field is searched for
	// the comma before it. An address with a zone and a port has less than 128 bytes; an
	// element of RFC 7239 may name a host too, which has up to 255.
	longestAddress = 128
	longestElement = 512
)

// ForwardedFor identifies by the X-Forwarded-For header, as far as trusted
// proxies wrote it. trusted are the networks of the proxies, at least one.
//
// A peer outside of trusted is itself the client, whatever the header says. If
// no untrusted address is found, because the header is missing or all of its
// addresses are trusted, the peer is the client, which is logged: a proxy may
// have forgotten the header, and then all its clients share one quota. It is logged in
// other words if the header has been there at times: then it may be that the clients
// write it. An entry that is no address ends the walk: nobody can be told, and the
// request is refused. Empty entries are passed over.
func ForwardedFor(trusted ...netip.Prefix) (IdentityFunc, error) {
	if err := checkTrusted(trusted); err != nil {
		return nil, err
	}
	return believing(forwardedFor, trusted, false), nil
}

// Forwarded is [ForwardedFor] for the header of RFC 7239. An obfuscated or
// unknown "for", which the RFC allows, is no address.
func Forwarded(trusted ...netip.Prefix) (IdentityFunc, error) {
	if err := checkTrusted(trusted); err != nil {
		return nil, err
	}
	return believing(forwardedElements, trusted, false), nil
}

// A testimony is a header field in which a proxy names its client.
type testimony struct {
	name    string // as http.Header spells it
	list    bool   // one entry for each proxy
	longest int    // entry, in bytes
	parse   func(string) (netip.Addr, bool)
}

var (
	forwardedFor      = testimony{"X-Forwarded-For", true, longestAddress, parseForwardedFor}
	forwardedElements = testimony{"Forwarded", true, longestElement, parseForwardedElement}
)

// client reads who the client is: the last address that is not trusted. It is invalid if
// there is none, and not ok if it cannot be told.
func (t *testimony) client(lines []string, trusts func(netip.Addr) bool) (_ netip.Addr, ok bool) {
	if !t.list {
		return t.only(lines)
	}
	hops := 0
	for entry, whole := range fromTheRight(lines, t.longest) {
		if hops++; !whole || hops > maxHops {
			return netip.Addr{}, false
		}
		if entry == "" {
			continue // RFC 9110 section 5.6.1.2: a reasonable number of them is ignored
		}
		hop, ok := t.parse(entry)
		if !ok {
			return netip.Addr{}, false
		}
		if hop = hop.Unmap().WithZone(""); !trusts(hop) {
			return hop, true
		}
	}
	return netip.Addr{}, true
}

// believing returns an identity function that believes a field if a trusted peer sends
// it. If peerless, it believes connections without an address too.
func believing(t testimony, trusted []netip.Prefix, peerless bool) IdentityFunc {
	trusted = slices.Clone(trusted)
	trusts := func(addr netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
	}
	var (
		errGarbage = nobodyError(t.name + " from a trusted proxy holds what is no address, two where one belongs, or more proxies than are believed")
		errMissing = nobodyError("no client address in " + t.name + ", and the connection has none")
		missing    = "no client address in " + t.name + " from a trusted proxy; its clients share one quota"
		sometimes  = t.name + " comes from trusted proxies with some requests and not with others: if those are no health checks, the proxy may pass on what its clients write, and they can pose as anyone; have it set the field"
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
		lines := r.Header[t.name]
		if len(lines) > 0 && !seen.Load() {
			seen.Store(true)
		}
		client, ok := t.client(lines, trusts)
		switch {
		case !ok:
			return Identity{}, errGarbage
		case client.IsValid():
			return Address(client), nil
		case !from.IsValid():
			return Identity{}, errMissing
		}
		id := Address(from)
		id.doubt = missing
		if len(lines) == 0 && seen.Load() {
			id.doubt = sometimes
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

// fromTheRight yields the comma-separated entries of all lines, last first,
// looking at no more of them than is asked for, and at no more of an entry than the
// longest may have: of one that is longer it yields the end, says that it is not whole,
// and stops there. A megabyte without a comma costs as much as a short one.
func fromTheRight(lines []string, longest int) func(yield func(entry string, whole bool) bool) {
	return func(yield func(string, bool) bool) {
		for _, line := range slices.Backward(lines) {
			for {
				start := max(0, len(line)-longest-1)
				comma := strings.LastIndexByte(line[start:], ',')
				if comma < 0 && len(line) > longest {
					yield(line[start:], false)
					return
				}
				comma += start
				if !yield(strings.Trim(line[comma+1:], " \t"), true) {
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
