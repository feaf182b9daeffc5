// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
)

// An Identity says which client the server thinks is asking. All clients with the same
// identity share a quota. Make one with [Address], [APIKey] or [Principal]; the
// zero Identity is nobody, and a request by nobody is refused.
//
// Identities cannot be compared or be the keys of a map: two addresses of one /64 are one
// client. [Decision.Pseudonym] is the same for all that share a quota.
type Identity struct {
	_ [0]func()

	// Tier chooses among Config.Tiers. It is no part of who is asking: a client
	// that moves to another tier keeps its counts.
	Tier string

	// Small, because each decision holds one: every request allocates it.
	kind  byte // 0: nobody
	is4   bool
	named uint32   // how much of the text is the name
	addr  [16]byte // an IPv4 address has four
	text  string   // the name, and what [Identity.For] has narrowed it to
	doubt *doubt   // what the operator should know of whom was believed; nil: nothing
}

// A doubt is about whom an identity function has believed.
type doubt struct {
	finding finding
	message string
}

// The kinds of identity. They go into every hash, so that no key can be chosen
// to look like an address.
const (
	kindAddress   byte = 'a'
	kindKey       byte = 'k'
	kindPrincipal byte = 'p'
	kindNet       byte = 'n'
	kindOwn       byte = 'o' // a tally that was bought
	kindAway      byte = 'v' // what such a tally has used on an instance that is not its home, by requests of a class of costs
	kindProof     byte = 's' // a proof that is spent
	kindRoom      byte = 'w' // the waiting room of an identity, whose bytes follow

	narrowed byte = 0x80 // added to the kind of an identity in one thing
	inFull   byte = 0x20 // of the kinds above, and not of one whose name is hashed
)

// Address returns the identity of the client that holds addr: one IPv4 address or one
// IPv6 /64, the least that is ever handed out. IPv4-mapped addresses and those of
// 64:ff9b::/96 are IPv4 addresses; each address of 64:ff9b:1::/48 stands for an IPv4
// address, and is an identity of its own; zones are dropped. The /56 and /48 of an IPv6
// address are limited too, see Config.Net56Factor. An invalid addr gives nobody.
func Address(addr netip.Addr) Identity {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() {
		return Identity{}
	}
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	return addressed(addr)
}

// addressed returns the identity of a valid address without a zone.
func addressed(addr netip.Addr) Identity {
	id := Identity{kind: kindAddress, is4: addr.Is4()}
	if id.is4 {
		a := addr.As4()
		copy(id.addr[:], a[:])
	} else {
		id.addr = addr.As16()
	}
	return id
}

// Addr returns the address that [Address] was given, for lists of networks: whole, also
// where the client is a /64, without its zone, and as IPv4 where it stands for an IPv4
// address. It is the zero Addr, which no [netip.Prefix] contains, for keys, principals and nobody.
func (id Identity) Addr() netip.Addr {
	switch {
	case id.kind != kindAddress:
		return netip.Addr{}
	case id.is4:
		return netip.AddrFrom4([4]byte(id.addr[:4]))
	}
	return netip.AddrFrom16(id.addr)
}

// home returns the address that all with the same identity have: the first of a /64.
func (id *Identity) home() netip.Addr {
	addr := id.Addr()
	if id.is4 || nat64Local.Contains(addr) || !addr.IsValid() {
		return addr
	}
	return masked(addr, 64)
}

// Format writes the kind of identity for every verb: an address is personal data, a name may
// be, and neither comes into a log by accident. For logs there is [Decision.Pseudonym], and
// [Identity.Addr] for programs that mean it. But package fmt calls no method of what lies in
// an unexported field: do not print a struct that holds an Identity in one.
func (id Identity) Format(f fmt.State, _ rune) {
	kind := "nobody"
	switch id.kind {
	case kindAddress:
		kind = "address"
	case kindKey:
		kind = "key"
	case kindPrincipal:
		kind = "principal"
	}
	fmt.Fprintf(f, "middleware.Identity(%s)", kind)
}

// nat64Local is for translators of one's own (RFC 8215). Each picks a prefix of 48, 56,
// 64 or 96 bits in it, and with that the place of the IPv4 address (RFC 6052, section
// 2.2), which therefore cannot be read without asking. Guessing would make strangers one
// client: all of IPv4 where the last 32 bits are read and 64 bits are the prefix. The
// whole address is right for each of them, because the translator has one address for
// each client. The translator writes these addresses: no client can pick one, and none
// comes from the Internet, where they are not routed.
var nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")

// nat64 is the network in which a translator in front of the server writes IPv4
// addresses (RFC 6052, section 2.1). All of IPv4 would be one /64 there.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// masked cuts IPv6 addresses to a prefix and leaves IPv4 addresses whole.
func masked(addr netip.Addr, bits int) netip.Addr {
	if addr.Is4() {
		return addr
	}
	return netip.PrefixFrom(addr, bits).Masked().Addr()
}

// APIKey returns the identity of the holder of an API key that the program has
// validated: unvalidated ones would be as many identities as a client cares to
// invent. The id should name the key, not be the key. An empty id gives nobody.
func APIKey(id string) Identity { return named(kindKey, id) }

// Principal returns the identity of an authenticated user or service. An empty
// id gives nobody.
func Principal(id string) Identity { return named(kindPrincipal, id) }

func named(kind byte, id string) Identity {
	if id == "" {
		return Identity{}
	}
	return Identity{kind: kind, text: id, named: uint32(len(id))}
}

// Name returns what [APIKey] or [Principal] was given, and "" of an address.
func (id Identity) Name() string { return id.text[:id.named] }

// For returns the identity of id in one thing only, a product or a project, whose
// quota is its own. The thing must be one that the program knows: names that
// clients make up would be as many quotas. id is unchanged by the empty name.
//
// A browser keeps a token for each of eight things of a policy; of more, some are replaced. Where it may
// ask for more by turns, have a policy for each. Where work is asked for, the thing must be the same at
// [Challenge.Path]: of its host or of what was signed in, and not of the path.
func (id Identity) For(thing string) Identity {
	if thing == "" || id.IsZero() {
		return id
	}
	id.text += strconv.Itoa(len(thing)) + ":" + thing // so that no two lists of names look alike
	return id
}

// IsZero reports whether id is nobody.
func (id Identity) IsZero() bool { return id.kind == 0 }

// An IdentityFunc tells who is asking. It runs for every request, before
// anything of the request is trusted.
//
// If it cannot tell, it returns nobody, the zero Identity: the request is then
// refused with 403, because a shared blank identity would let strangers spend
// each other's quota, and no identity at all would be no limit. To refuse in its
// own words it returns a [Denial]; if it cannot tell now, an error that wraps
// [ErrIdentityUnavailable]. Any other error counts as nobody. It is in Decision.IdentityErr,
// and of it the log has the type of its cause alone.
type IdentityFunc func(*http.Request) (Identity, error)

// ErrIdentityUnavailable is wrapped by the error of an identity function that cannot tell now who is
// asking, such as one whose table of keys is away:
//
//	return middleware.Identity{}, fmt.Errorf("%w: %w", middleware.ErrIdentityUnavailable, err)
//
// The request is refused with 503, and may come again. The text of the error goes into the log: it
// must hold nothing that the client has sent.
var ErrIdentityUnavailable = errors.New("middleware: cannot tell now who is asking")

// A Denial is returned by an identity function that refuses a request itself.
type Denial struct {
	// Status is 401 or 403; anything else is taken as 403.
	Status int

	// WWWAuthenticate is sent with a 401, as RFC 9110 section 15.5.2 demands.
	// Default: Bearer.
	WWWAuthenticate string
}

// Error names the status.
func (d *Denial) Error() string { return "identity denied: " + http.StatusText(d.status()) }

func (d *Denial) status() int {
	if d.Status == http.StatusUnauthorized {
		return d.Status
	}
	return http.StatusForbidden
}

// A nobodyError says why one of our own identity functions cannot tell who is asking.
// It goes into the log, and so holds nothing that was sent.
type nobodyError string

// Error says why.
func (why nobodyError) Error() string { return "middleware: cannot tell who is asking: " + string(why) }

// errNoAddress is about the connection's other end.
const errNoAddress nobodyError = "the connection has no address, as on a Unix socket; set Config.Identity, see InsecureNoPeer"

// PeerAddress identifies by the address of the connection's other end, which
// cannot be forged. Behind a reverse proxy that is the proxy: use
// [ForwardedFor] or [AddressFromHeader] there. On a Unix socket, and behind adapters that
// leave RemoteAddr empty, nobody has an address and every request is refused: see
// [InsecureNoPeer]. A peer that looks like a proxy is logged.
func PeerAddress(r *http.Request) (Identity, error) {
	if addr, ok := dotted(r.RemoteAddr); ok {
		id := Identity{kind: kindAddress, is4: true}
		binary.BigEndian.PutUint32(id.addr[:], addr)
		return id, nil
	}
	addr, ok := peer(r)
	if !ok {
		return Identity{}, errNoAddress
	}
	return Address(addr), nil
}

// peer parses RemoteAddr: with a port, as net/http fills it in, or bare, as
// some middleware leaves it.
func peer(r *http.Request) (netip.Addr, bool) {
	if ap, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return ap.Addr(), true
	}
	addr, err := netip.ParseAddr(r.RemoteAddr)
	return addr, err == nil
}

// dotted parses an IPv4 address and a port as net/http writes them. It is not ok for any other
// spelling, which package netip may still take. That one parses two times and looks for a zone.
func dotted(s string) (addr uint32, ok bool) {
	octet, digits, dots := uint32(0), 0, 0
	for i := range len(s) {
		if c := uint32(s[i]) - '0'; c <= 9 {
			octet = octet*10 + c
			if digits++; digits > 1 && octet < 10 || digits > 3 {
				return 0, false // a leading zero, or too many
			}
			continue
		}
		if octet > 255 || digits == 0 {
			return 0, false
		}
		addr = addr<<8 | octet
		switch {
		case dots == 3:
			return addr, s[i] == ':' && port(s[i+1:])
		case s[i] != '.':
			return 0, false
		}
		octet, digits, dots = 0, 0, dots+1
	}
	return 0, false
}

// port reports whether s is a port as net/http writes it.
func port(s string) bool {
	if len(s) < 1 || len(s) > 4 {
		if len(s) != 5 || s > "65535" {
			return false
		}
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// unnamed reports whether a RemoteAddr is that of a connection without an address: empty,
// or as net/http spells a client of a Unix socket that has no name. Everything else that
// is no address may have come from anywhere.
func unnamed(remote string) bool { return remote == "" || remote == "@" }

// ValidatedKey identifies by API key, and a client that shows none by otherwise. The
// program validates: validate returns the identity that [APIKey] or [Principal] made of
// the key's owner, with its tier; nobody if there is no key or the key is not
// known, and otherwise decides; or an error, such as a [Denial], to refuse.
// If otherwise is nil, a client that shows no key is refused with 401. It panics if
// validate is nil.
func ValidatedKey(validate IdentityFunc, otherwise IdentityFunc) IdentityFunc {
	if validate == nil {
		panic("middleware: ValidatedKey needs a function that validates")
	}
	if otherwise == nil {
		otherwise = func(*http.Request) (Identity, error) { return Identity{}, &Denial{Status: http.StatusUnauthorized} }
	}
	return func(r *http.Request) (Identity, error) {
		if id, err := validate(r); err != nil || !id.IsZero() {
			return id, err
		}
		return otherwise(r)
	}
}
