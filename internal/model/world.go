// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/chance"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/shop"
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

	// Share and Fleet keep bought tallies near home: on each instance that did not issue the
	// challenge of one. Share is q, what it may use there; Fleet is Config.Instances, of which
	// package limiter makes q. With neither a tally is at home everywhere.
	Share int64
	Fleet int64

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
	// LastSent is the same with a jar that keeps the token of the answer to the request that was sent
	// last, as package client does: it cannot read what a token has counted.
	LastSent
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
	tallies      = 3 // the shared tally, and two that are bought
	shared       = 0
	bought       = 1                     // the first of those
	counted      = tallies + tallies - 1 // the tallies, and what of a bought one is used away from home
)

// share names what of a bought tally is used on an instance that is not its home.
func share(f int) int { return f + tallies - 1 }

// base is the start of a window of any length that the worlds have.
var base = time.Unix(1_699_999_200, 0)

// compiled is a World with all that does not change in it.
type compiled struct {
	World
	policy [counted]*limiter.Policy
	whole  bool // package limiter holds nothing away from home
	prices *shop.Prices

	quota    [counted]int64
	window   time.Duration
	interval [counted]time.Duration // of buckets
	tracked  []int                  // what a memory holds counts of
	readings []time.Duration        // of all clocks, in order
	first    int64                  // the number of the window before that of the start
}

// work is the price of a tally where nobody buys. The level of a ledger is told from the
// price exactly, as long as the work has more parts than a sale.
const work = 1 << 18

func (w World) compile() (*compiled, error) {
	c := &compiled{World: w, window: w.Limit.Window}
	if w.Instances < 1 || w.Instances > maxInstances || w.Tallies >= tallies || len(w.Moments) == 0 || w.Spans && len(w.Moments) > maxSpans {
		return nil, fmt.Errorf("model: no world of %d instances, %d tallies and %d moments", w.Instances, w.Tallies, len(w.Moments))
	}
	if c.Memory == 0 {
		c.Memory = time.Hour
	}
	policy, err := limiter.Compile("model", []storeless.Limit{w.Limit})
	if err != nil {
		return nil, err
	}
	if c.prices, err = (shop.Tariff{Work: work, Crowd: 1, Memory: c.Memory}).Compile(); err != nil {
		return nil, err
	}
	pass := policy.Pass(c.Memory)
	away, err := w.away(pass, c.Memory)
	if err != nil {
		return nil, err
	}
	if away == nil {
		away, c.whole = pass, true
	}
	for f := range tallies {
		c.policy[f] = policy
		if f != shared {
			c.policy[f], c.policy[share(f)] = pass, away
		}
	}
	for f := range counted {
		if f <= w.Tallies || w.near() && f >= share(bought) && f <= share(w.Tallies) {
			c.tracked = append(c.tracked, f)
		}
		c.quota[f] = pass.Limit(0).Quota
		switch l := policy.Limit(0); {
		case l.Algorithm == storeless.TokenBucket || l.Algorithm == storeless.LeakyBucket:
			c.quota[f] = l.Burst
			c.interval[f] = (l.Window + time.Duration(l.Quota) - 1) / time.Duration(l.Quota)
			if f >= tallies {
				slower := chance.Slower(l.Burst, max(1, w.Fleet), 1) * float64(c.interval[f])
				c.interval[f] = time.Duration(math.Ceil(slower/float64(time.Microsecond))) * time.Microsecond
			}
		case f == shared:
			c.quota[f] = l.Quota
		case f >= tallies && w.near():
			c.quota[f] = w.q(c.quota[f])
		}
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

// near reports whether bought tallies stay near home.
func (w World) near() bool { return w.Share > 0 || w.Fleet > 0 }

// away compiles what a bought tally may use away from home, as package middleware does; nil: all.
func (w World) away(pass *limiter.Policy, memory time.Duration) (*limiter.Policy, error) {
	switch {
	case !w.near():
		return pass, nil
	case w.Limit.Burst == 1:
		return nil, errors.New("model: a meter is not shared")
	case w.Fleet > 0:
		return pass.Away(w.Fleet, 1), nil
	}
	l := w.Limit
	l.Quota = w.Share
	if l.Algorithm == storeless.SlidingWindow { // as [limiter.Policy.Away] has it
		l.Algorithm = storeless.FixedWindow
	}
	p, err := limiter.Compile("model", []storeless.Limit{l})
	if err != nil {
		return nil, err
	}
	if l.Window > memory {
		return nil, errors.New("model: the share of a pass is for its life: that is for Fleet")
	}
	return p.Pass(memory), nil
}

// q is the share of a quota.
func (w World) q(quota int64) int64 {
	if w.Share > 0 {
		return w.Share
	}
	return chance.Share(quota, w.Fleet, 1)
}

// carried is the tally that a client with several requests under way has.
func (w *compiled) carried() int {
	if w.Mode == Newcomers {
		return bought
	}
	return shared
}

// bucket reports whether the limit is counted by a time mark.
func (w *compiled) bucket() bool { return w.interval[shared] > 0 }

// lasting reports whether what is used of a bought tally does not come back in this world.
func (w *compiled) lasting(f int) bool { return f != shared && w.window > w.Memory }

// bound is what the table of bounds says of one tally: no more is admitted for it in one
// window by so many lives of memories.
func (w *compiled) bound(f, lives int) int {
	most := lives * w.one(f)
	if w.near() && f != shared {
		away := w.one(share(f))
		if w.Step > 0 && !w.bucket() {
			// By a token from ahead the tally is charged in the next window, and its share in that of the
			// clock: so it has two of them there, less what such a token counts.
			away = max(away, min(2*away, w.one(f)-1))
		}
		most = w.one(f) + (lives-1)*away
	}
	switch w.Client {
	case Parallel:
		most = min(most, w.AtOnce*w.one(f))
	case LastSent:
		atOnce := w.AtOnce * w.one(f)
		if len(w.Moments) > 1 {
			atOnce += w.AtOnce - 1 // that were under way when the window began: see docs/proof.md
		}
		most = min(most, atOnce)
	}
	if w.Mode == EveryRequest {
		most = min(most, lives*w.Proofs)
	}
	return most
}

// one is what one memory admits.
func (w *compiled) one(f int) int {
	if w.bucket() {
		span := w.Moments[len(w.Moments)-1] - w.Moments[0] + max(0, w.Step)
		return int(w.quota[f] + int64(span/w.interval[f]))
	}
	return int(w.quota[f])
}

// span is the bound of one memory in any span of a window's length: see package limiter.
func (w *compiled) span() int {
	quota := int(w.quota[shared])
	switch {
	case w.bucket():
		return quota + int(w.window/w.interval[shared])
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
		return c.one(shared), nil // of one memory: what is true of all together, nobody knows
	}
	if w.Mode != Newcomers {
		all = c.bound(shared, lives)
	}
	if w.Mode == WhenExhausted || w.Mode == Newcomers {
		for f := bought; f <= w.Tallies; f++ {
			all += c.bound(f, lives)
		}
	}
	return all, nil
}
