// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/slots"
)

// A Concurrency limits how many requests of one tally are served at once, beside the
// limits, which count how many there are. A request that finds no room is answered 429 with
// the reason [TooManyAtOnce], and is charged nothing. It is plain data, like [Config].
//
// Clients are told apart as for the limits: all clients behind an address share what Max permits,
// and each tally that a [Challenge] sells has as many of its own.
//
// Without an [Exact] counter each instance counts for itself. With one, all instances together
// serve at most Max. That costs a round trip to the counter before the handler, and one after it.
// Then the context of a request ends, with a cause that wraps [context.DeadlineExceeded], a second
// before MaxHold: the others are told by then that it is over. A process that is frozen, or a
// handler that does not look at its context, exceeds Max by what it goes on to do. In an outage
// each instance counts for itself under [FailOpen].
//
// In shadow mode no request is ended.
type Concurrency struct {
	_ [0]func()

	// Max is how many requests of one tally are served at once. Required. Permitted: 1 to 10000.
	Max int

	// Tiers have another Max each, by the names of Config.Tiers. The others have Max.
	Tiers map[string]int

	// MaxHold is how long a request counts at most: a client that opens Max connections and
	// sends nothing shuts out all that share its tally for no longer. After that the
	// request goes on uncounted, so that at most Max + Max·(age/MaxHold) are alive, where
	// the oldest has the age. Default: 30 s. Permitted: 2 s to 1 h.
	MaxHold time.Duration

	// CancelHeld ends the context of a request at MaxHold, with a cause that wraps
	// [context.DeadlineExceeded], and closes a connection that was hijacked. With an Exact counter
	// that is always so.
	CancelHeld bool
}

// withDefaults returns c with what it leaves zero filled in.
func (c Concurrency) withDefaults() Concurrency {
	c.MaxHold = cmp.Or(c.MaxHold, 30*time.Second)
	c.Tiers = maps.Clone(c.Tiers)
	return c
}

// maxFor is how many requests of a tier's tallies are served at once.
func (c *Concurrency) maxFor(tier string) int {
	if n, ok := c.Tiers[tier]; ok {
		return n
	}
	return c.Max
}

// errHeldTooLong is the cause for which the context of a request has ended that had counted
// for as long as MaxHold permits.
var errHeldTooLong = fmt.Errorf("middleware: the request has been served for longer than Concurrency.MaxHold: %w", context.DeadlineExceeded)

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
