// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/storeless"
)

// A World is a small fleet, its clients and its time, to be explored. All of it is finite.
type World struct {
	Limit     storeless.Limit
	Second    storeless.Limit // beside it; zero: there is none
	Instances int             // N, 1 to 3
	Restarts  int             // C: how often an instance loses its memory

	Client Client
	AtOnce int // of Parallel clients: B, how many requests they have under way

	// Mode is what bought tallies are good for. Tallies is F, how many of them there are, up to 2.
	// Shop says that they are bought in the course of things, of any instance, at its price; else
	// they are there from the start.
	Mode    middleware.Mode
	Tallies int
	Shop    bool
	Memory  time.Duration // PassTime; 0: an hour

	Proofs int // of EveryRequest: S, up to 3

	// Networks says that there are three addresses of IPv6: two of a /56, and one of another in the same /48. It is
	// how many times the quota of an address a /56 and a /48 may use.
	Networks [2]int64

	// Settles is how often what an instance has admitted first, of what was not settled yet, may turn out to cost
	// SettleTo: 0, or more than 1.
	Settles  int
	SettleTo int64

	// Reconfigures is how often an instance changes between two configurations. The second one has another Quota,
	// if that is not 0, and with Off no challenge.
	Reconfigures int
	Quota        int64
	Off          bool

	// Moments are where the time of the world may stand, since the start of a window, in order: four at most.
	Moments []time.Duration

	// Step is by how much the clock of one instance may step, once: forward by no more than
	// the skew allowed, or back by more than that.
	Step time.Duration
}

// A Client is how the clients of a world behave.
type Client uint8

const (
	// Hostile clients show any token that any of them was ever given, or two of them together, or none. So
	// they are all clients of an address at once: those that echo, drop, replay, roll back and fork.
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
	// Dropping clients show nothing but what they have bought, without a count.
	Dropping
)

const (
	maxInstances = 3
	maxMoments   = 4
	tallies      = 3 // the shared tally, and two that are bought; or the tallies of three addresses
	shared       = 0
	bought       = 1           // the first of those
	counted      = tallies + 2 // the tallies, and the networks that are counted beside them on one instance
)

// price is the price of a tally while no client buys.
const price = 64

// leak is how many sales to an address leak away in an hour. Its Crowd is one, as small as can be.
const leak = 240

// name is the policy's, and every instance has these secrets.
const name = "model"

var secrets = [][]byte{[]byte("every instance of the model has this")}

// off reports whether a configuration sells nothing.
func (w *World) off(variant uint8) bool { return variant == 1 && w.Off }

// sells reports whether work is good for anything in this world.
func (w *World) sells() bool { return w.Tallies > 0 || w.Proofs > 0 || w.Shop }

func (w *World) networks() bool { return w.Networks[0] > 0 }

// isShared reports whether a tally is free.
func (w *World) isShared(f int) bool { return f == shared || w.networks() }

// limitsOf returns the limits of a configuration.
func (w *World) limitsOf(variant uint8) []storeless.Limit {
	l := []storeless.Limit{w.Limit}
	if variant == 1 && w.Quota > 0 {
		l[0].Quota = w.Quota
	}
	if w.Second.Quota > 0 {
		l = append(l, w.Second)
	}
	return l
}

// carried is the tally that a client with several requests under way has.
func (w *World) carried() int {
	if w.Mode == middleware.Newcomers {
		return bought
	}
	return shared
}

// compiled is a World with all that does not change in it.
type compiled struct {
	World
	policy   [tallies]*limiter.Policy
	codec    *token.Codec
	passLife time.Duration
	laws     [2][counted]law // by configuration
	tracked  []int           // what an instance is looked at for
	readings []time.Duration // of all clocks, in order
}

const maxReadings = 8

func (w World) compile() (*compiled, error) {
	if w.Memory == 0 {
		w.Memory = time.Hour
	}
	c := &compiled{World: w}
	for _, m := range w.Moments {
		c.readings = append(c.readings, m, m+w.Step)
	}
	slices.Sort(c.readings)
	c.readings = slices.Compact(c.readings)
	if w.Instances < 1 || w.Instances > maxInstances || w.Tallies >= tallies || len(w.Moments) == 0 || len(w.Moments) > maxMoments {
		return nil, fmt.Errorf("model: no world of %d instances, %d tallies and %d moments", w.Instances, w.Tallies, len(w.Moments))
	}
	for variant := range c.laws {
		policy, err := limiter.Compile(name, w.limitsOf(uint8(variant)))
		if err != nil {
			return nil, err
		}
		pass := policy.Pass(w.Memory)
		for f := range counted {
			for i := range policy.Len() {
				c.laws[variant][f] = append(c.laws[variant][f], w.ruleOf(f, policy.Limit(i), pass.Limit(i)))
			}
		}
		if variant > 0 {
			break
		}
		c.passLife = policy.PassLife(w.Memory)
		for f := range c.policy {
			if c.policy[f] = pass; w.isShared(f) {
				c.policy[f] = policy
			}
			if w.networks() || f <= w.Tallies && (f != shared || w.Mode != middleware.Newcomers) {
				c.tracked = append(c.tracked, f)
			}
		}
		if c.codec, err = token.New(secrets, policy, pass); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// ruleOf is what a limit means for one of the things that are counted, by the table of bounds.
func (w *World) ruleOf(f int, l, pass limiter.Limit) rule {
	r := rule{window: l.Window, slides: l.Algorithm == limiter.SlidingWindow, quota: l.Quota}
	r.first = base.Unix()/int64(r.window/time.Second) - 1
	if l.Burst > 0 {
		r.quota, r.interval = l.Burst, (l.Window+time.Duration(l.Quota)-1)/time.Duration(l.Quota)
	}
	switch {
	case w.networks() && f >= tallies:
		r.quota *= w.Networks[f-tallies]
	case w.isShared(f):
	case l.Burst == 0:
		r.quota, r.lasting = pass.Quota, l.Window > w.Memory
	}
	return r
}

// law is the first configuration's.
func (w *compiled) law(f int) law { return w.laws[0][f] }

// merge is what two tokens say together at a time.
func (w *compiled) merge(f int, clock time.Duration, a, b pair) (p pair) {
	m := w.policy[f].Merge(base.Add(clock), a.whole(), b.whole())
	copy(p[:], m[:])
	return p
}

// beside says what is counted on an instance beside a tally, in its memory alone: the networks around an address.
func (w *compiled) beside(f int) []int {
	switch {
	case !w.networks():
		return nil
	case f == tallies-1:
		return networks[1:] // another /56, all of it
	}
	return networks[:]
}

var networks = [...]int{tallies, tallies + 1}
