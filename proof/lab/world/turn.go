// SPDX-License-Identifier: Apache-2.0

package world

// A run is cycles of eight rounds. In a round the clock stands, but for what the round does to
// it, and all clients do what they always do; then it is put forward by one window. Every other
// cycle is a flood.
const (
	calmly    = iota
	killed    // Redis is killed in the middle
	wobbling  // Redis is back; clocks go to and fro, as far as they may
	skewed    // one is ahead, as far as it may be
	restarted // one is replaced by another, and a file of policies is broken
	stepped   // one is set back by three windows, and forward again
	afterward // for so long it may show
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
