// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
)

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
			if w.networks() || f <= w.Tallies && (f != shared || w.Mode != Newcomers) {
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
