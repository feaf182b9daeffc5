// SPDX-License-Identifier: Apache-2.0

package middleware

import "github.com/tallystick/tallystick/storeless"

// A ceiling is what one instance admits of a tally, whatever its token shows: one part in
// Instances. An instance that sees a tally for the first time has to believe that nothing was
// used of it, so that N instances admit N quotas to a client that drops its token. With
// parts they admit one together, and C that start anew C parts more.
//
// No rule of that kind is fair. An instance cannot tell a client that drops its token from one
// that the balancer has sent to no other: docs/proof.md. So it is an option, and is named for
// what it does. Networks have no cells but those of this instance's own count: theirs
// is a part in the same way, without a second one.

// divide compiles what this instance admits of a tally, where that is a part.
func (t *tier) divide(cfg *Config) {
	if cfg.UnfairCeiling {
		t.ceiling = t.policy.Share(cfg.Instances)
	}
}

// bound returns the networks of a tally with what is counted under its ceiling, if it has one. What the
// tally's own cells hold is the most that anybody has seen, and no such count. So this has
// cells of its own, under a key that follows from the tally's: to hash anew takes longer.
func (t *tier) bound(tally storeless.Key, networks []storeless.Network) []storeless.Network {
	if t.ceiling == nil {
		return networks
	}
	return append(networks, storeless.Network{Key: ^tally, Policy: t.ceiling})
}

// clients returns how many clients the memory has to have room for. An IPv6 client takes
// three cells of each limit, and one more under a ceiling.
func (c *Config) clients() int {
	if c.UnfairCeiling {
		return c.MaxClients + (c.MaxClients+2)/3
	}
	return c.MaxClients
}
