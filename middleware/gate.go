// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"hash/maphash"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/slots"
)

// A gate is a compiled [Concurrency].
type gate struct {
	Concurrency
	*liveRequests
}

// LiveRequests are those that are being served. They survive Reconfigure.
type liveRequests struct {
	seed  maphash.Seed
	table slots.Table
}

// keyOf names a tally of this process, by the bytes that no other has.
func (g *gate) keyOf(parts ...[]byte) slots.Key {
	var h maphash.Hash
	h.SetSeed(g.seed)
	for _, part := range parts {
		_, _ = h.Write(part)
	}
	return slots.Key(h.Sum64())
}

// networkOf names from where a request comes that stands in line: an address, an IPv6 /48, of
// which one /64 after another can be had, or a name; whatever tallies it has bought.
func (g *gate) networkOf(who *subject, shared slots.Key) slots.Key {
	if !who.id.wide() {
		return shared
	}
	var stack [16]byte
	return g.keyOf(who.id.appendNet(stack[:0], 48))
}

// longestWait is how long a request may stand in line with a proof that was good when it
// came. What the proof has bought is remembered for so much longer.
func (g *gate) longestWait() time.Duration {
	if g == nil || g.Queue == 0 {
		return 0
	}
	return g.MaxHold
}
