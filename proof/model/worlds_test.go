// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/model"
	"github.com/tallystick/tallystick/storeless"
)

const (
	second = time.Second
	width  = 10 * second // of the windows
)

// A named world is a row of the page.
type named struct {
	who   string
	world model.World
	long  bool // it takes seconds
	huge  bool // it takes minutes, and an hour with the race detector, which sees one goroutine
	loose bool // the bound is not met: it is above what can happen
}

func fixed(quota int64) storeless.Limit {
	return storeless.Limit{Quota: quota, Window: width, Algorithm: storeless.FixedWindow}
}

func sliding(quota int64) storeless.Limit {
	return storeless.Limit{Quota: quota, Window: width, Algorithm: storeless.SlidingWindow}
}

// slow has windows of twice that length.
func slow(quota int64) storeless.Limit {
	return storeless.Limit{Quota: quota, Window: 2 * width, Algorithm: storeless.FixedWindow}
}

// bucket gets a token back every two seconds.
func bucket(burst int64) storeless.Limit {
	l := storeless.Limit{Quota: 5, Burst: burst, Window: width, Algorithm: storeless.TokenBucket}
	if burst == 1 {
		l.Algorithm = storeless.LeakyBucket
	}
	return l
}

var (
	one = []time.Duration{5 * second}
	two = []time.Duration{5 * second, 15 * second} // the middles of two windows

	later = []time.Duration{5 * second, 15 * second, 20 * second, 25 * second} // and of a third, and its begin

	moment = []time.Duration{5 * second, 7 * second}

	ends = []time.Duration{5 * time.Minute, 10*time.Minute - 3*second, 10 * time.Minute, 15 * time.Minute} // of ten minutes

	soon = []time.Duration{5 * second, 12 * second} // while a challenge lives

	// Half a second before the boundary a clock that is ahead by the skew allowed, which is
	// a second, is in the next window. At the boundary a sliding window weighs the last one whole.
	edge = []time.Duration{5 * second, 9500 * time.Millisecond, 10 * second, 15 * second}

	drops = []time.Duration{0, second, 2 * second, 3 * second} // of a bucket
)

const (
	anybody   = "any clients of one address"
	early     = "the same; a clock goes ahead by the skew"
	back      = "the same; a clock goes back by a window (of one instance)"
	echoes    = "one that echoes"
	parallel  = "one that echoes the highest, B = "
	latest    = "one that echoes the answer to what it sent last, B = "
	latestIn  = "the same, none under way as the window begins"
	jar       = "one whose last answer counts, B = "
	exhausted = "any, `WhenExhausted`"
	newcomers = "any, `Newcomers`"
	buying    = "the same, tallies bought at their price"
	pass      = "the same, a window longer than `PassTime`"
	proofs    = "any, `EveryRequest`, S = "
	proofsTwo = "any, `EveryRequest`, in two windows, S = "

	// The worlds of a bought tally.
	ownEcho  = "one that echoes a bought tally"
	ownMany  = "one that echoes the highest of it, B = 2"
	ownEarly = "any, `Newcomers`; a clock goes ahead by the skew"
	ownBack  = "any, `Newcomers`; a clock goes back by a window (of one instance)"

	passEarly = "the same; a clock goes ahead by the skew, and the window is longer than `PassTime`"
	passBack  = "the same; a clock goes back by a window, which is longer than `PassTime`"

	limits  = "any, of two limits"
	around  = "any, of three addresses of a /48"
	both    = "any, of three addresses of a /48, by two limits"
	refunds = "one that drops; requests may be refunded"
	dear    = "one that drops; requests may cost two more"
	netback = "three addresses of a /48 that drop; requests may be refunded"
	sales   = "three addresses of a /48 that buy at their prices"
	quotas  = "any; the quota changes, and back"
	closes  = "any, `WhenExhausted`; the challenge is off, and on again"
)

func worlds() []named {
	ten := storeless.Limit{Quota: 20, Window: 10 * time.Minute, Algorithm: storeless.SlidingWindow}
	return []named{
		{who: anybody, world: model.World{Limit: fixed(3), Instances: 3, Restarts: 1, Moments: two}},
		{who: anybody, world: model.World{Limit: sliding(2), Instances: 3, Restarts: 1, Moments: two}},
		{who: anybody, world: model.World{Limit: sliding(3), Instances: 3, Restarts: 1, Moments: edge}, long: true},
		{who: anybody, world: model.World{Limit: bucket(2), Instances: 3, Moments: drops}},
		{who: anybody, world: model.World{Limit: bucket(2), Instances: 3, Restarts: 1, Moments: drops}, long: true, loose: true},
		{who: anybody, world: model.World{Limit: bucket(1), Instances: 3, Restarts: 1, Moments: drops}, loose: true},

		{who: early, world: model.World{Limit: fixed(2), Instances: 2, Restarts: 1, Moments: edge, Step: second}},
		{who: early, world: model.World{Limit: fixed(3), Instances: 3, Restarts: 1, Moments: edge, Step: second}, long: true},
		{who: early, world: model.World{Limit: sliding(2), Instances: 2, Restarts: 1, Moments: edge, Step: second}},
		{who: early, world: model.World{Limit: sliding(3), Instances: 3, Moments: edge, Step: second}, long: true},
		{who: early, world: model.World{Limit: bucket(2), Instances: 2, Moments: drops, Step: second}, loose: true},
		{who: back, world: model.World{Limit: fixed(2), Instances: 2, Restarts: 1, Moments: two, Step: -width}},
		{who: back, world: model.World{Limit: sliding(2), Instances: 2, Moments: two, Step: -width}},
		{who: back, world: model.World{Limit: sliding(2), Instances: 2, Restarts: 1, Moments: edge, Step: -width}, long: true},
		{who: back, world: model.World{Limit: bucket(2), Instances: 2, Moments: drops, Step: -width}},

		{who: echoes, world: model.World{Limit: fixed(3), Instances: 3, Restarts: 1, Moments: two, Client: model.Parallel, AtOnce: 1}},
		{who: echoes, world: model.World{Limit: sliding(3), Instances: 3, Restarts: 1, Moments: edge, Step: second, Client: model.Parallel, AtOnce: 1}},
		{who: echoes, world: model.World{Limit: bucket(2), Instances: 3, Restarts: 1, Moments: drops, Client: model.Parallel, AtOnce: 1}},
		{who: parallel + "2", world: model.World{Limit: fixed(3), Instances: 3, Moments: two, Client: model.Parallel, AtOnce: 2}},
		{who: parallel + "3", world: model.World{Limit: sliding(2), Instances: 2, Moments: two, Client: model.Parallel, AtOnce: 3}},
		{who: parallel + "3", world: model.World{Limit: sliding(3), Instances: 3, Moments: two, Client: model.Parallel, AtOnce: 3}, long: true},
		{who: parallel + "3", world: model.World{Limit: fixed(3), Instances: 1, Moments: two, Client: model.Parallel, AtOnce: 3}},
		{who: parallel + "2", world: model.World{Limit: fixed(3), Instances: 1, Restarts: 1, Moments: two, Client: model.Parallel, AtOnce: 2}, loose: true},
		{who: latest + "2", world: model.World{Limit: fixed(3), Instances: 3, Moments: two, Client: model.LastSent, AtOnce: 2}},
		{who: latest + "3", world: model.World{Limit: fixed(2), Instances: 3, Restarts: 1, Moments: two, Client: model.LastSent, AtOnce: 3}},
		{who: latestIn, world: model.World{Limit: fixed(3), Instances: 3, Moments: one, Client: model.LastSent, AtOnce: 2}},
		{who: jar + "2", world: model.World{Limit: fixed(3), Instances: 3, Moments: two, Client: model.Overwriting, AtOnce: 2}},

		{who: exhausted, world: model.World{Limit: fixed(3), Instances: 2, Restarts: 1, Moments: one, Mode: middleware.WhenExhausted, Tallies: 1}},
		{who: exhausted, world: model.World{Limit: fixed(3), Instances: 3, Restarts: 1, Moments: two, Mode: middleware.WhenExhausted, Tallies: 1}, long: true},
		{who: exhausted, world: model.World{Limit: fixed(1), Instances: 3, Restarts: 1, Moments: two, Mode: middleware.WhenExhausted, Tallies: 2}},
		{who: exhausted, world: model.World{Limit: fixed(2), Instances: 3, Restarts: 1, Moments: two, Mode: middleware.WhenExhausted, Tallies: 2}, long: true},
		{who: exhausted, world: model.World{Limit: fixed(3), Instances: 3, Restarts: 1, Moments: one, Mode: middleware.WhenExhausted, Tallies: 2}, long: true, huge: true},
		{who: exhausted, world: model.World{Limit: sliding(2), Instances: 2, Restarts: 1, Moments: two, Mode: middleware.WhenExhausted, Tallies: 1}, long: true},
		{who: exhausted, world: model.World{Limit: sliding(1), Instances: 2, Restarts: 1, Moments: two, Mode: middleware.WhenExhausted, Tallies: 2}, long: true},
		{who: newcomers, world: model.World{Limit: fixed(3), Instances: 3, Restarts: 1, Moments: two, Mode: middleware.Newcomers, Tallies: 2}, long: true},
		{who: newcomers, world: model.World{Limit: fixed(2), Instances: 2, Moments: two, Mode: middleware.Newcomers, Tallies: 2}},
		{who: newcomers, world: model.World{Limit: sliding(3), Instances: 2, Restarts: 1, Moments: two, Mode: middleware.Newcomers, Tallies: 1}},
		{who: newcomers, world: model.World{Limit: bucket(2), Instances: 2, Restarts: 1, Moments: drops, Mode: middleware.Newcomers, Tallies: 1}, loose: true},
		{who: buying, world: model.World{Limit: fixed(1), Instances: 1, Moments: soon, Mode: middleware.Newcomers, Tallies: 2, Shop: true, Memory: time.Minute}},
		{who: buying, world: model.World{Limit: fixed(1), Instances: 2, Moments: two, Mode: middleware.Newcomers, Tallies: 2, Shop: true, Memory: time.Minute}},
		{who: buying, world: model.World{Limit: fixed(2), Instances: 2, Restarts: 1, Moments: soon, Mode: middleware.Newcomers, Tallies: 1, Shop: true, Memory: time.Minute}},
		{who: pass, world: model.World{Limit: ten, Instances: 2, Restarts: 1, Moments: []time.Duration{5 * time.Minute, 15 * time.Minute}, Mode: middleware.Newcomers, Tallies: 1, Memory: time.Minute}},
		{who: proofs + "1", world: model.World{Limit: fixed(2), Instances: 2, Restarts: 1, Moments: soon, Mode: middleware.EveryRequest, Proofs: 1}},
		{who: proofs + "3", world: model.World{Limit: fixed(2), Instances: 2, Restarts: 1, Moments: soon, Mode: middleware.EveryRequest, Proofs: 3}},
		{who: proofsTwo + "1", world: model.World{Limit: fixed(2), Instances: 2, Restarts: 1, Moments: two, Mode: middleware.EveryRequest, Proofs: 1}},
		{who: proofsTwo + "3", world: model.World{Limit: fixed(2), Instances: 2, Restarts: 1, Moments: two, Mode: middleware.EveryRequest, Proofs: 3}},

		{who: ownEcho, world: model.World{Limit: fixed(3), Instances: 3, Restarts: 1, Moments: two, Mode: middleware.Newcomers, Tallies: 1, Client: model.Parallel, AtOnce: 1}},
		{who: ownMany, world: model.World{Limit: fixed(3), Instances: 3, Moments: two, Mode: middleware.Newcomers, Tallies: 1, Client: model.Parallel, AtOnce: 2}},
		{who: ownEarly, world: model.World{Limit: fixed(3), Instances: 2, Restarts: 1, Moments: edge, Mode: middleware.Newcomers, Tallies: 1, Step: second}},
		{who: ownEarly, world: model.World{Limit: sliding(2), Instances: 2, Moments: edge, Mode: middleware.Newcomers, Tallies: 1, Step: second}},
		{who: ownBack, world: model.World{Limit: fixed(2), Instances: 2, Restarts: 1, Moments: two, Mode: middleware.Newcomers, Tallies: 1, Step: -width}},
		{who: ownBack, world: model.World{Limit: sliding(2), Instances: 2, Moments: two, Mode: middleware.Newcomers, Tallies: 1, Step: -width}},

		{who: limits, world: model.World{Limit: fixed(2), Second: slow(3), Instances: 2, Restarts: 1, Moments: two}},
		{who: limits, world: model.World{Limit: sliding(2), Second: bucket(3), Instances: 2, Moments: two}},
		{who: limits, world: model.World{Limit: fixed(2), Second: slow(3), Instances: 2, Moments: two, Mode: middleware.Newcomers, Tallies: 1}},
		{who: around, world: model.World{Limit: fixed(2), Instances: 2, Moments: two, Networks: [2]int64{1, 2}}},
		{who: around, world: model.World{Limit: sliding(2), Instances: 1, Moments: two, Networks: [2]int64{1, 2}}},
		{who: around, world: model.World{Limit: fixed(1), Instances: 2, Moments: two, Networks: [2]int64{2, 2}}},
		{who: both, world: model.World{Limit: fixed(2), Second: slow(3), Instances: 1, Moments: two, Networks: [2]int64{1, 2}}},
		{who: refunds, world: model.World{Limit: fixed(3), Instances: 1, Moments: later, Client: model.Dropping, Settles: 2}},
		{who: refunds, world: model.World{Limit: sliding(3), Instances: 1, Moments: later, Client: model.Dropping, Settles: 2}},
		{who: netback, world: model.World{Limit: fixed(2), Instances: 1, Moments: two, Networks: [2]int64{1, 2}, Client: model.Dropping, Settles: 2}},
		{who: dear, world: model.World{Limit: fixed(3), Instances: 1, Moments: two, Client: model.Dropping, Settles: 1, SettleTo: 3}},
		{who: refunds, world: model.World{Limit: bucket(3), Instances: 1, Moments: drops, Client: model.Dropping, Settles: 2}},
		{who: sales, world: model.World{Limit: fixed(1), Instances: 1, Moments: moment, Mode: middleware.WhenExhausted, Networks: [2]int64{1, 2}, Client: model.Dropping, Shop: true, Memory: time.Minute}},
		{who: passEarly, world: model.World{Limit: ten, Instances: 2, Moments: ends, Mode: middleware.Newcomers, Tallies: 1, Memory: time.Minute, Step: 5 * second}},
		{who: passBack, world: model.World{Limit: ten, Instances: 2, Moments: []time.Duration{5 * time.Minute, 15 * time.Minute}, Mode: middleware.Newcomers, Tallies: 1, Memory: time.Minute, Step: -10 * time.Minute}},
		{who: quotas, world: model.World{Limit: fixed(3), Instances: 1, Moments: two, Reconfigures: 2, Quota: 2}},
		{who: closes, world: model.World{Limit: fixed(2), Instances: 1, Restarts: 1, Moments: two, Mode: middleware.WhenExhausted, Tallies: 1, Reconfigures: 2, Off: true}},
	}
}
