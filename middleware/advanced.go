// SPDX-License-Identifier: Apache-2.0

package middleware

// Advanced are the fields of a [Config] that answer an attack or a rare need. Config embeds it. A
// literal names it:
//
//	Advanced: middleware.Advanced{InsecureCookie: true},
//
// Elsewhere write cfg.InsecureCookie. From Go 1.27 on a literal may also name the field itself, as in Config{InsecureCookie: true}.
type Advanced struct {
	_ [0]func()

	// Net56Factor and Net48Factor say how many times the quota of one IPv6 /64 a whole /56
	// and a whole /48 may use together. Default: 8, and 64 or Net56Factor if that is
	// larger. Permitted: 1 to 2147483647, Net48Factor no less than Net56Factor.
	Net56Factor, Net48Factor int64

	// PortBlocks gives each block of 4096 ports of an IPv4 address a price of its own, so that one
	// subscriber cannot make tallies dear for others behind a carrier's address (RFC 7422): docs/forms.md
	// says where that helps. RemoteAddr must have the client's own port. Needs a Challenge that sells
	// tallies. Prohibited with an Identity and with InsecureNoMemory. Switching it on or off resets all
	// prices to Work.
	PortBlocks bool

	// SurgeBudget is how many tallies this instance may sell in a minute before
	// the work of every challenge begins to rise, to 2²⁸ hashes at the most, which a
	// browser can do. One network, an IPv4 /16 or IPv6 /29, counts for a quarter of it at
	// most. Needs a Challenge that sells tallies. Prohibited with InsecureNoMemory. Default: 0, never.
	SurgeBudget int64

	// Shards is into how many keys the counter of Exact splits each address. Each key has its part of the
	// quota, and a request is charged to one of them by chance: for an address so busy that one key is
	// too hot. It refuses a little early, and admits no more than one key would, if the quota is at least
	// Shards. Needs Exact. Default: 1. Permitted: up to 256.
	Shards int64

	// EmbeddedCookie is for pages that live in other sites' frames: the cookie
	// becomes SameSite=None and Partitioned. Prohibited with InsecureCookie,
	// which browsers would not store, and with [HeaderOnly].
	EmbeddedCookie bool

	// InsecureCookie drops Secure, and with it the __Host- prefix that keeps
	// sibling domains from planting tokens. For development over plain HTTP. Prohibited with [HeaderOnly].
	InsecureCookie bool

	// InsecureNoMemory switches the memory off. Then nothing bounds a client
	// that drops, replays or forks its token: only honest clients are limited.
	InsecureNoMemory bool
}
