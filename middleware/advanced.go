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
