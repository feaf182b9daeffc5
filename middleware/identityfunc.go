// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"encoding/binary"
	"errors"
	"net/http"
	"net/netip"

	"github.com/tallystick/tallystick/middleware/internal/httpfield"
)

// An IdentityFunc tells who is asking. It runs for every request, before
// anything of the request is trusted.
//
// If it cannot tell, it returns the zero Identity: the request is then refused with 403, because a
// shared blank identity would let strangers spend each other's quota, and no identity at all would
// be no limit. To refuse in its own words it returns a [Denial]; if it cannot tell now, an error
// that wraps [ErrIdentityUnavailable]. Any other error counts like the zero Identity. It is in
// Decision.IdentityErr, and the log has no more of it than the type of its cause.
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

// These are about the connection's other end.
const (
	errNoPeer    nobodyError = "the connection has no address, as on a Unix socket; set Config.Identity, see InsecureNoPeer"
	errNoAddress nobodyError = "RemoteAddr holds no address: a middleware outside may have changed it"
)

// PeerAddress identifies by the address of the connection's other end, which cannot be forged.
// Behind a reverse proxy that is the proxy: use [ForwardedFor] or [AddressFromHeader] there. On a
// Unix socket, and behind adapters that leave RemoteAddr empty, no client has an address and every
// request is refused: see [InsecureNoPeer]. A peer that looks like a proxy is logged.
func PeerAddress(r *http.Request) (Identity, error) {
	if addr, ok := dotted(r.RemoteAddr); ok {
		id := Identity{kind: kindAddress, is4: true}
		binary.BigEndian.PutUint32(id.addr[:], addr)
		return id, nil
	}
	addr, ok := peer(r)
	if !ok {
		return Identity{}, noPeer(r)
	}
	return Address(addr), nil
}

// peer parses RemoteAddr: as net/http fills it in, or as some middleware leaves it.
func peer(r *http.Request) (netip.Addr, bool) {
	node, ok := httpfield.ParseAddress(r.RemoteAddr)
	return node.Addr(), ok
}

// noPeer says why a request has no peer. Clients of a Unix socket have no name, a path, or one after an @; nothing else is
// blamed on a socket.
func noPeer(r *http.Request) nobodyError {
	if remote := r.RemoteAddr; remote == "" || remote[0] == '@' || remote[0] == '/' {
		return errNoPeer
	}
	return errNoAddress
}

// dotted parses an IPv4 address and a port as net/http writes them. It is not ok for any other
// spelling, which package netip may still take. That one parses two times and looks for a zone.
func dotted(s string) (addr uint32, ok bool) {
	for dots := 0; ; dots++ {
		octet, digits := uint32(0), 0
		for ; digits < len(s) && s[digits]-'0' <= 9; digits++ {
			octet = octet*10 + uint32(s[digits]-'0')
		}
		if digits == 0 || digits > 3 || digits == len(s) || octet > 255 || digits > 1 && s[0] == '0' {
			return 0, false
		}
		switch addr = addr<<8 | octet; {
		case dots == 3:
			return addr, s[digits] == ':' && port(s[digits+1:])
		case s[digits] != '.':
			return 0, false
		}
		s = s[digits+1:]
	}
}

// port reports whether s is a port as net/http writes it.
func port(s string) bool {
	n := 0
	for i := range len(s) {
		if s[i]-'0' > 9 {
			return false
		}
		n = n*10 + int(s[i]-'0')
	}
	return 1 <= len(s) && len(s) <= 5 && n <= 65535
}

// ValidatedKey identifies by API key, and a client that shows none by otherwise. The program
// validates: validate returns the identity that [APIKey] or [Principal] made of the key's owner,
// with its tier; the zero Identity if there is no key or the key is not known, and then otherwise
// decides; or an error, such as a [Denial], to refuse. If otherwise is nil, a client that shows no
// key is refused with 401. It panics if validate is nil.
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
