// SPDX-License-Identifier: Apache-2.0

package world

import (
	"crypto/rand"
	"slices"

	"github.com/tallystick/tallystick/proof/lab/court"
)

// A run is cycles of eight rounds. In a round the clock stands, but for what the round does to it, and all
// clients do what they always do; then it is put forward by one window. Every other cycle is a flood.
const (
	calmly    = iota
	again     // as before
	wobbling  // clocks go to and fro, as far as they may
	skewed    // one is ahead, as far as it may be
	restarted // one is replaced by another, and a file of policies is broken
	stepped   // one is set back by three windows, and forward again
	afterward // it may show for this long
	settling
	ofCycle
)

// A turn is a part of a round, in which all clients do what they do.
type turn struct {
	calm  bool // the clocks agree, and did so for two windows
	agree bool // they do so at the moment: a challenge of one instance is good for another one
	part  int  // of the round, where the clocks are moved between
	parts int
	round int64
}

// share is the part of n that falls on this turn: together all parts make n.
func (t turn) share(n int) int { return n*(t.part+1)/t.parts - n*t.part/t.parts }

// canBuy says that a challenge of one instance is good for another one, and no instance is restarted.
func (t turn) canBuy() bool { return t.calm && t.agree }

// window is the length of every window here, in seconds, and middle is where in it a round
// begins: far enough from both ends that clocks which disagree as they may are in one window.
//
// Clocks are moved by hand between rounds: so what is admitted hangs on counts, and not on how fast the machine is. They begin today:
// so a window of the exact routes is as far from its end as [court.ExactWindow] says.
const (
	window = 60
	middle = 20
)

// A ring is the secrets of all instances while they are rotated as docs/operations.md says: the
// new one is added last, everywhere; then it is moved first, everywhere; the old one is
// dropped when the tokens that it has signed are dead.
//
// Each step is one Reconfigure of all instances, so next is called when the last step is
// in force everywhere.
type ring struct {
	secrets []string
	dead    map[string]int64 // by the secret: when its last token is dead
	fresh   string           // was added, and does not sign yet
	wanted  bool

	led, dropped *court.Count
}

// ringMost is how many secrets a Config takes.
const ringMost = 8

func newRing(led, dropped *court.Count) *ring {
	return &ring{secrets: []string{secret()}, dead: map[string]int64{}, led: led, dropped: dropped}
}

func secret() string { return rand.Text() + rand.Text() }

// rotate begins a rotation with the next step, or as soon as there is room.
func (r *ring) rotate() { r.wanted = true }

// next takes the next step at a time, where life is the life of the longest-lived token.
func (r *ring) next(now, life int64) {
	switch {
	case r.fresh != "": // all have it
		old := r.secrets[0]
		r.secrets = slices.Insert(slices.DeleteFunc(r.secrets, r.isFresh), 0, r.fresh)
		// Requests that are under way while this comes into force are signed by the old one
		// still, at the same time: the clock stands meanwhile, or has moved by less than this.
		r.dead[old] = now + life + window
		r.fresh = ""
		r.led.Add(1)
	case r.wanted && len(r.secrets) < ringMost:
		r.fresh, r.wanted = secret(), false
		r.secrets = append(r.secrets, r.fresh)
	}
	r.secrets = slices.DeleteFunc(r.secrets, func(s string) bool {
		dead, old := r.dead[s]
		if !old || now < dead {
			return false
		}
		delete(r.dead, s)
		r.dropped.Add(1)
		return true
	})
}

func (r *ring) isFresh(s string) bool { return s == r.fresh }
