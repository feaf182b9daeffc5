// SPDX-License-Identifier: Apache-2.0

package httpfield

import (
	"iter"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxHops is how many entries are looked at, the empty ones included. A longer
	// chain of trusted proxies than this is a loop or an attack.
	maxHops = 16

	// These are how long an entry may be: that is how much of the field is searched for
	// the comma before it. An address with a zone and a port has less than 128 bytes; an
	// element of RFC 7239 may name a host too, which has up to 255.
	longestAddress = 128
	longestElement = 512

	// maxPairs is how many pairs an element of RFC 7239 may have, which knows four.
	maxPairs = 16
)

// An AddressField is a header field in which a proxy names its client.
type AddressField struct {
	Name    string // as http.Header spells it
	List    bool   // one entry for each proxy
	longest int    // entry, in bytes
	parse   func(string) (netip.Addr, bool)
}

// AddressFieldNamed returns the field of a name: X-Forwarded-For and Forwarded are lists,
// every other holds one address.
func AddressFieldNamed(name string) AddressField {
	switch name = http.CanonicalHeaderKey(name); name {
	case "X-Forwarded-For":
		return AddressField{name, true, longestAddress, parseForwardedFor}
	case "Forwarded":
		return AddressField{name, true, longestElement, parseForwardedElement}
	}
	return AddressField{name, false, longestAddress, parseForwardedFor}
}

// Client reads the client's address: the last one that is not trusted. It is invalid if there is
// none, and not ok if it cannot be told.
func (f *AddressField) Client(lines []string, trusts func(netip.Addr) bool) (_ netip.Addr, ok bool) {
	if !f.List {
		return f.Only(lines)
	}
	hops, empty := 0, false
	for entry, whole := range fromTheRight(lines, f.longest) {
		if hops++; !whole || hops > maxHops {
			return netip.Addr{}, false
		}
		if entry == "" {
			// RFC 9110 section 5.6.1.2 has recipients ignore empty elements. That is about reading
			// a list, not about which proxy to believe: one that knows no address may have written
			// this one, and all to its left is then hearsay.
			empty = true
			continue
		}
		hop, ok := f.parse(entry)
		if !ok || empty {
			return netip.Addr{}, false
		}
		if hop = hop.Unmap().WithZone(""); !trusts(hop) {
			return hop, true
		}
	}
	return netip.Addr{}, true
}

// Only reads a field of one address. The address is invalid if there is no line, and it is
// not ok if it cannot be told.
func (f *AddressField) Only(lines []string) (netip.Addr, bool) {
	switch {
	case len(lines) == 0:
		return netip.Addr{}, true
	case len(lines) > 1 || len(lines[0]) > f.longest:
		return netip.Addr{}, false
	}
	return f.parse(Trim(lines[0]))
}

// fromTheRight yields the comma-separated entries of all lines, last first,
// looking at no more of them than is asked for, and at no more of an entry than the
// longest may have: of one that is longer it yields the end, says that it is not whole,
// and stops there. A megabyte without a comma costs as much as a short one.
func fromTheRight(lines []string, longest int) iter.Seq2[string, bool] {
	return func(yield func(entry string, whole bool) bool) {
		for _, line := range slices.Backward(lines) {
			for {
				start := max(0, len(line)-longest-1)
				comma := strings.LastIndexByte(line[start:], ',')
				if comma < 0 && len(line) > longest {
					yield(line[start:], false)
					return
				}
				comma += start
				if !yield(Trim(line[comma+1:]), true) {
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

// longestNode is how long an address with all that may be around it is.
const longestNode = len("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255%zone-of-32-characters-in-length]:65535")

// ParseAddress reads an address as proxies and middleware write it, in whichever field: IPv6 in brackets or not, with a
// port, an empty one or none, which is 0, and with space around it. A bare IPv6 address has no port. IPv4 stands in no
// brackets.
func ParseAddress(s string) (netip.AddrPort, bool) {
	if s = Trim(s); len(s) > longestNode {
		return netip.AddrPort{}, false
	}
	host, port := s, ""
	if inner, bracketed := strings.CutPrefix(s, "["); bracketed {
		var closed, more bool
		host, port, closed = strings.Cut(inner, "]")
		if port, more = strings.CutPrefix(port, ":"); !closed || !more && port != "" || !strings.Contains(host, ":") {
			return netip.AddrPort{}, false
		}
	} else if before, after, _ := strings.Cut(s, ":"); !strings.Contains(after, ":") {
		host, port = before, after
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, false
	}
	if port == "" {
		return netip.AddrPortFrom(addr, 0), true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return netip.AddrPortFrom(addr, uint16(n)), err == nil
}

// parseForwardedFor parses an entry of X-Forwarded-For.
func parseForwardedFor(s string) (netip.Addr, bool) {
	node, ok := ParseAddress(s)
	return node.Addr(), ok
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
	pairs := 0
	for pair := range strings.SplitSeq(s, ";") {
		if pairs++; pairs > maxPairs {
			return netip.Addr{}, false
		}
		pair = Trim(pair)
		if pair == "" {
			continue // the grammar lets pairs be empty
		}
		name, value, _ := strings.Cut(pair, "=")
		value, ok := unquoted(value)
		if !ok || !IsToken(name) {
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
	return s, IsToken(s)
}

// IsToken reports whether s is a token of RFC 9110 section 5.6.2.
func IsToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// Entries yields the addresses of a list, last first, those that cannot be parsed as
// invalid ones, and of a field of one address that one. It ends where Client does.
func (f *AddressField) Entries(lines []string) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		hops := 0
		for entry, whole := range fromTheRight(lines, f.longest) {
			if hops++; !whole || hops > maxHops {
				return
			}
			if entry == "" {
				continue
			}
			if hop, _ := f.parse(entry); !yield(hop.Unmap().WithZone("")) {
				return
			}
		}
	}
}
