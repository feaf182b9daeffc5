// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// An Identity says which client the server thinks is asking. All clients with the same identity
// share a quota. Make one with [Address], [APIKey] or [Principal]; the zero Identity names no
// client, and its requests are refused.
//
// Identities cannot be compared or be the keys of a map: two addresses of one /64 are one
// client. [Decision.Pseudonym] is the same for all that share a quota.
type Identity struct {
	_ [0]func()

	// Tier chooses among Config.Tiers. It is no part of the identity: a client that moves to
	// another tier keeps its counts.
	Tier string

	// Small, because each decision holds one: every request allocates it.
	kind         byte // 0: none
	is4          bool
	named        uint32        // how much of the text is the name
	addr         [16]byte      // an IPv4 address has four
	text         string        // the name, and what [Identity.For] has narrowed it to
	proxyWarning *proxyWarning // what the operator should know of the proxy that was believed; nil: nothing
}

// A proxyWarning is about a peer that an identity function has believed.
type proxyWarning struct {
	sometimes bool // it is about some requests, and not about others
	message   string
}

// The kinds of identity. They go into every hash, so that no key can be chosen
// to look like an address.
const (
	kindAddress     byte = 'a'
	kindKey         byte = 'k'
	kindPrincipal   byte = 'p'
	kindNet         byte = 'n'
	kindOwn         byte = 'o' // a tally that was bought
	kindProof       byte = 's' // a proof that is spent
	kindWaitingRoom byte = 'w' // the waiting room of an identity, whose bytes follow

	narrowed byte = 0x80 // added to the kind of an identity in one scope
	inFull   byte = 0x20 // of the kinds above, and not of one whose name is hashed
)

// Address returns the identity of the client that holds addr: one IPv4 address or one IPv6 /64, the
// least that is ever handed out. IPv4-mapped addresses and addresses in 64:ff9b::/96 are IPv4
// addresses; each address of 64:ff9b:1::/48 stands for an IPv4 address, and is an identity of its
// own; zones are dropped. The /56 and /48 of an IPv6 address are limited too, see
// Config.Advanced.Net56Factor. An invalid addr gives the zero Identity.
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

// Addr returns the address that [Address] was given, for lists of networks: whole, also where the
// client is a /64, without its zone, and as IPv4 where it stands for an IPv4 address. For keys,
// principals and the zero Identity it is the zero Addr, which no [netip.Prefix] contains.
func (id Identity) Addr() netip.Addr {
	switch {
	case id.kind != kindAddress:
		return netip.Addr{}
	case id.is4:
		return netip.AddrFrom4([4]byte(id.addr[:4]))
	}
	return netip.AddrFrom16(id.addr)
}

// firstAddr returns the address that all with the same identity have: the first of a /64.
func (id *Identity) firstAddr() netip.Addr {
	addr := id.Addr()
	if id.is4 || id.translated() || !addr.IsValid() {
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

// APIKey returns the identity of the holder of an API key that the program has validated:
// unvalidated ones would be as many identities as a client cares to invent. The id should name the
// key, not be the key. An empty id gives the zero Identity.
func APIKey(id string) Identity { return named(kindKey, id) }

// Principal returns the identity of an authenticated user or service. An empty id gives the zero
// Identity.
func Principal(id string) Identity { return named(kindPrincipal, id) }

func named(kind byte, id string) Identity {
	if id == "" {
		return Identity{}
	}
	return Identity{kind: kind, text: id, named: uint32(len(id))}
}

// Name returns what [APIKey] or [Principal] was given, and "" of an address.
func (id Identity) Name() string { return id.text[:id.named] }

// For returns the identity of id in one scope only, a product or a project, whose
// quota is its own. The scope must be one that the program knows: names that
// clients make up would be as many quotas. id is unchanged by the empty name.
//
// A browser keeps a token for each of eight things of a policy; of more, some are replaced. Where it may
// ask for more by turns, have a policy for each. Where work is asked for, the scope must be the same at
// [Challenge.Path]: of its host or of what was signed in, and not of the path.
func (id Identity) For(scope string) Identity {
	if scope == "" || id.IsZero() {
		return id
	}
	id.text += strconv.Itoa(len(scope)) + ":" + scope // so that no two lists of names look alike
	return id
}

// IsZero reports whether id is the zero Identity, which names no client.
func (id Identity) IsZero() bool { return id.kind == 0 }

// longestInFull is how long a name may be that stands for itself, in bytes. All that is made out to
// an identity hashes its bytes, some ten times in all: what a client chose to be long is hashed once.
const longestInFull = 256

// append appends the bytes that no other identity has: the kind, then an
// address of fixed length or the rest.
func (id *Identity) append(b []byte) []byte {
	b = append(b, id.kind)
	switch {
	case id.named > longestInFull:
		sum := sha256.Sum256([]byte(id.text[:id.named]))
		b[len(b)-1] &^= inFull // no name can be chosen to be the hash of another
		b = append(b, sum[:]...)
	case id.kind != kindAddress:
		b = append(b, id.text[:id.named]...)
	case id.is4:
		b = append(b, id.addr[:4]...)
	case id.translated():
		b = append(b, id.addr[:]...)
	default:
		b = append(b, id.addr[:8]...)
	}
	scope := id.text[id.named:]
	if scope == "" {
		return b
	}
	// The kind tells an identity from one that is narrowed, and the length where
	// the name ends: none can be chosen to look like another.
	whole := len(b)
	b[0] |= narrowed
	b = append(b, scope...)
	return binary.BigEndian.AppendUint32(b, uint32(whole))
}

// appendNet appends the bytes of the network of the given bits around an IPv6
// identity. The length keeps 2001:db8::/48 apart from 2001:db8::/56.
func (id *Identity) appendNet(b []byte, bits int) []byte {
	a := id.addr
	clear(a[bits/8:])
	return append(append(b, kindNet, byte(bits)), a[:8]...)
}

// provider returns a number for the provider of an address: the first 16 bits of an IPv4 address,
// or 29 of an IPv6 address, which a provider gets for the asking. 0 stands for identities that no
// client can have in any number, such as keys and users.
func (id *Identity) provider() uint64 {
	switch {
	case id.kind&^narrowed != kindAddress:
		return 0
	case id.is4:
		return 1<<32 | uint64(id.addr[0])<<8 | uint64(id.addr[1])
	}
	return 2<<32 | uint64(binary.BigEndian.Uint32(id.addr[:4])>>3)
}

// wide reports whether id belongs to larger networks that are limited too.
func (id *Identity) wide() bool {
	return id.kind == kindAddress && !id.is4 && !id.translated()
}

// translated reports whether an address of IPv6 is in nat64Local.
func (id *Identity) translated() bool { return string(id.addr[:6]) == "\x00\x64\xff\x9b\x00\x01" }

// A pseudonymKey turns identities into pseudonyms. The key is behind a second pointer: of what
// lies in an unexported field package fmt follows the first, for some verbs.
type pseudonymKey struct{ key *[sha256.Size]byte }

// newPseudonymKey derives the key by HKDF-SHA256 (RFC 5869), from a label that no other purpose
// has. The policy is no part of it: an operator follows a client from policy to policy, and has the
// addresses anyway. Clients see nothing that is made with this key.
func newPseudonymKey(secret []byte) (*pseudonymKey, error) {
	k, err := hkdf.Key(sha256.New, secret, []byte("tallystick/v1"), "tallystick/v1/pseudonym", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("middleware: deriving the key of pseudonyms: %w", err)
	}
	return &pseudonymKey{(*[sha256.Size]byte)(k)}, nil
}

// of returns 80 bits of a keyed hash of an identity's bytes: two clients of a million share a
// pseudonym with a chance of 1 in 2·10¹². Lower-case letters and digits, so that one double
// click takes all of it.
func (k *pseudonymKey) of(identity []byte) string {
	h := hmac.New(sha256.New, k.key[:])
	h.Write(identity)
	sum := h.Sum(nil)
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}
