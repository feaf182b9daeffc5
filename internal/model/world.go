// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// A World is what is explored: a small fleet, its clients and its time. All of it is finite.
type World struct {
	Limit     storeless.Limit
	Instances int // N, 1 to 3
	Restarts  int // C: how often an instance loses its memory

	Client Client
	AtOnce int // of Parallel clients: B, how many requests they have under way

	// Mode is what bought tallies are good for. Tallies is F, how many of them there are, up to 2.
	// Shop says that they are bought in the course of things, of any instance, at its price; else
	// they are there from the start.
	Mode    Mode
	Tallies int
	Shop    bool
	Memory  time.Duration // PriceMemory; 0: an hour

	Proofs int // of EveryRequest: S, up to 3

	// Moments are where the time of the world may stand, since the start of a window, in order.
	Moments []time.Duration

	// Spans says that what is admitted is held, too, against the bound of any span of a window's
	// length, aligned or not. It takes no more than four moments.
	Spans bool

	// Step is by how much the clock of one instance may step, once: forward by no more than
	// the skew allowed, or back by more than that.
	Step time.Duration
}

// A Client is how the clients of a world behave.
type Client uint8

const (
	// Hostile clients show any token that any of them was ever given, or two of them together,
	// or none. So they are all clients of an address at once: those that echo, drop, replay,
	// roll back and fork.
	Hostile Client = iota
	// Parallel is one client with AtOnce requests under way. It shows the token that has counted
	// most of those that it was given. With one request at a time it is the client that echoes.
	Parallel
	// Overwriting is the same with a jar in which the answer that comes last replaces what
	// was there, as a browser's does.
	Overwriting
)

// A Mode is what work buys, as in package middleware.
type Mode uint8

// The modes. In Never nothing is for sale.
const (
	Never Mode = iota
	WhenExhausted
	Newcomers
	EveryRequest
)

const (
	maxInstances = 3
	maxSpans     = 4
	families     = 3 // the shared tally, and two that are bought
	shared       = 0
)

// base is the start of a window of any length that the worlds have.
var base = time.Unix(1_699_999_200, 0)

// compiled is a World with all that does not change in it.
type compiled struct {
	World
	policy [families]*storeless.Policy
	prices *storeless.Prices

	quota    [families]int64
	window   time.Duration
	interval time.Duration   // of buckets
	readings []time.Duration // of all clocks, in order
	first    int64           // the number of the window before that of the start
}

// work is the price of a tally where nobody buys. The level of a ledger is told from the
// price exactly, as long as the work has more parts than a sale.
const work = 1 << 18

func (w World) compile() (*compiled, error) {
	c := &compiled{World: w, window: w.Limit.Window}
	if w.Instances < 1 || w.Instances > maxInstances || w.Tallies >= families || len(w.Moments) == 0 || w.Spans && len(w.Moments) > maxSpans {
		return nil, fmt.Errorf("model: no world of %d instances, %d tallies and %d moments", w.Instances, w.Tallies, len(w.Moments))
	}
	if c.Memory == 0 {
		c.Memory = time.Hour
	}
	policy, err := storeless.Compile("model", []storeless.Limit{w.Limit})
	if err != nil {
		return nil, err
	}
	if c.prices, err = (storeless.Tariff{Work: work, Crowd: 1, Memory: c.Memory}).Compile(); err != nil {
		return nil, err
	}
	pass := policy.Pass(c.Memory)
	for f := range families {
		c.policy[f] = policy
		if f != shared {
			c.policy[f] = pass
		}
		c.quota[f] = c.policy[f].Limit(0).Quota
	}
	if l := policy.Limit(0); l.Algorithm == storeless.TokenBucket || l.Algorithm == storeless.LeakyBucket {
		c.interval = (l.Window + time.Duration(l.Quota) - 1) / time.Duration(l.Quota)
		c.quota[shared] = l.Burst
	}
	for _, m := range w.Moments {
		c.readings = append(c.readings, m)
		if w.Step != 0 {
			c.readings = append(c.readings, m+w.Step)
		}
	}
	slices.Sort(c.readings)
	c.readings = slices.Compact(c.readings)
	c.first = base.Unix()/int64(c.window/time.Second) - 1
	return c, nil
}

// bucket reports whether the limit is counted by a time mark.
func (w *compiled) bucket() bool { return w.interval > 0 }

// lasting reports whether what is used of a bought tally does not come back in this world.
func (w *compiled) lasting(f int) bool { return f != shared && w.window > w.Memory }

// bound is what the table of bounds says of one tally: no more is admitted for it in one
// window by so many lives of memories. The rule that own tallies stay near home would
// change the line of those that are bought, and nothing else here.
func (w *compiled) bound(f, lives int) int {
	if w.Client == Parallel {
		lives = min(lives, w.AtOnce)
	}
	if w.bucket() {
		span := w.Moments[len(w.Moments)-1] - w.Moments[0] + max(0, w.Step)
		return lives * int(w.quota[f]+int64(span/w.interval))
	}
	if w.Mode == EveryRequest {
		return min(lives*int(w.quota[f]), lives*w.Proofs)
	}
	return lives * int(w.quota[f])
}

// span is the bound of one memory in any span of a window's length: see package storeless.
func (w *compiled) span() int {
	quota := int(w.quota[shared])
	switch {
	case w.bucket():
		return quota + int(w.window/w.interval)
	case w.Limit.Algorithm == storeless.SlidingWindow:
		return 2*quota - 1
	}
	return 2 * quota
}

// Bound is what the table of bounds says of all clients of this world together.
func (w World) Bound() (int, error) {
	c, err := w.compile()
	if err != nil {
		return 0, err
	}
	lives, all := w.Instances+w.Restarts, 0
	if w.Step < 0 {
		return c.bound(shared, 1), nil // of one memory: what is true of all together, nobody knows
	}
	if w.Mode != Newcomers {
		all = c.bound(shared, lives)
	}
	if w.Mode == WhenExhausted || w.Mode == Newcomers {
		for f := 1; f <= w.Tallies; f++ {
			all += c.bound(f, lives)
		}
	}
	return all, nil
}
