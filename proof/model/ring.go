// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/ring"
)

// rings play what instances ask each other, by real rings that listen on pipes. As with memories, what a ring holds
// cannot be copied: its account is kept as the fewest calls that lead there, and a ring is opened for each request
// that is played, and given these.
type rings struct {
	*memories
	network
	names   map[group]int          // the owner, by list
	sample  exact.Call             // of the key
	blank   map[time.Duration]seen // what an account says that nobody has opened
	loaders [maxInstances]*ring.Ring
	done    map[errand]*outcome
}

// An errand is a request to an instance, and all that its answer follows from.
type errand struct {
	at           int8
	call         call
	memory       memory
	list, newest group
	asked, there group // whom it may ask; and who lives, of these and itself
	accounts     [maxInstances]memory
	clocks       [maxInstances]time.Duration
}

type outcome struct {
	answer
	refused  bool // by a limit; else, and if it is not admitted, nobody has answered
	recalled bool // it was so before, and nobody was asked
	charged  group
	known    exact.Used // of it, to the owner
	accounts [maxInstances]memory
}

// newRings chooses addresses by which the third instance owns the key where all are in the ring, and else the first.
func newRings(ms *memories) *rings {
	r := &rings{memories: ms, names: map[group]int{}, blank: map[time.Duration]seen{}, done: map[errand]*outcome{}, network: network{ears: map[string]*ear{}}}
	r.ways.DialContext, r.ways.DisableKeepAlives = r.dial, true
	l := ms.replay(nil)
	l.look(ms.readings[0])
	r.sample = l.at.desk.call
	r.sample.Known = nil
	for n := 0; ; n++ {
		for i := range r.at {
			r.at[i] = fmt.Sprintf("10.0.%d.%d:9000", n, i+1)
		}
		for list := group(1); list < 1<<maxInstances; list++ {
			one := open(stranger, r.addresses(list), nil, newEar(), nil)
			r.names[list] = slices.Index(r.at[:], one.Stats().Members[one.Part(r.sample)])
			_ = one.Close()
		}
		if r.names[0b111] == 2 && r.names[0b011] == 0 {
			break
		}
	}
	for i := range r.loaders {
		r.loaders[i] = open(stranger, r.addresses(1<<i), r, newEar(), r.clock(i))
	}
	one := r.start(0, 1, empty)
	for _, at := range r.readings {
		r.blank[at] = r.sights(0, at)
	}
	_ = one.Close()
	return r
}

func (r *rings) owner(list group) int { return r.names[list] }

// start opens the ring of an instance, and gives it what leads to an account.
func (r *rings) start(i int, list group, account memory) *ring.Ring {
	l := newEar()
	r.mu.Lock()
	r.ears[r.at[i]] = l
	r.mu.Unlock()
	one := open(r.at[i], r.addresses(list), r, l, r.clock(i))
	for _, c := range r.all[account].charges {
		r.set(i, c.clock)
		if _, err := r.loaders[i].Take(context.Background(), c.call); err != nil {
			panic(err)
		}
	}
	return one
}

// run sends a request to an instance.
func (r *rings) run(e errand) *outcome {
	if o, known := r.done[e]; known {
		return o
	}
	var open []*ring.Ring
	front := r.replay(r.all[e.memory].calls, r.all[e.memory].said...)
	for i := range r.at {
		if e.there.has(i) {
			one := r.start(i, e.list, e.accounts[i])
			if open = append(open, one); i == int(e.at) {
				front.at.desk.Ring = one
			}
		}
	}
	if e.newest != 0 {
		one := r.start(int(e.at), e.newest, e.accounts[e.at])
		front.at.desk.later = one
		open = append(open, one)
	}
	for i, clock := range e.clocks {
		r.set(i, clock)
	}
	r.mu.Lock()
	r.heard, r.lose = 0, map[int8]int{answerLost: 1, answersLost: 2, answerMoved: 1}[e.call.lost]
	r.mu.Unlock()
	o := &outcome{answer: front.ask(&e.call), accounts: e.accounts}
	o.recalled = len(front.at.desk.said) == 0
	o.refused = !o.admitted && front.at.said.Reason == middleware.OverLimit
	r.mu.Lock()
	heard := r.heard
	r.lose = 0
	r.mu.Unlock()
	if n := len(front.at.desk.said); n > 0 && r.owner(e.list) == int(e.at) || n > 1 && e.newest != 0 && r.owner(e.newest) == int(e.at) {
		heard = heard.with(int(e.at))
	}
	for _, known := range front.at.desk.call.Known {
		o.known = known
	}
	for i := range r.at {
		if e.there.has(i) {
			r.seen(&e, o, i, heard.has(i), front.at.desk.call)
		}
	}
	is := content{calls: append(slices.Clone(r.all[e.memory].calls), e.call), said: append(slices.Clone(r.all[e.memory].said), front.at.desk.said...)}
	is.seen = r.look(front, is.calls, e.clocks[e.at])
	o.next = r.memories.named(is)
	r.mu.Lock()
	clear(r.ears)
	r.mu.Unlock()
	for _, one := range open {
		go func() { _ = one.Close() }() // which waits
	}
	r.done[e] = o
	return o
}

// seen notes what an account has become, by a call that has reached it or has not.
func (r *rings) seen(e *errand, o *outcome, i int, asked bool, call exact.Call) {
	before := r.all[e.accounts[i]]
	is := content{charges: before.charges}
	if asked {
		v, err := r.loaders[i].Take(context.Background(), call) // it has the ID, and charges nothing
		if err != nil || !v.Replayed {
			o.fault = "an owner does not know what it has answered"
		}
		if v.Admitted {
			o.charged = o.charged.with(i)
		}
		is.charges = append(slices.Clone(before.charges), charge{e.clocks[i], call})
	}
	is.seen = r.sights(i, e.clocks[i])
	switch {
	case asked && is.seen != r.blank[e.clocks[i]]:
		o.accounts[i] = r.memories.named(is)
	case asked:
		o.accounts[i] = empty
	case e.accounts[i] == empty && is.seen != r.blank[e.clocks[i]] || e.accounts[i] != empty && is.seen != before.seen:
		o.fault = "an account changes that was not asked"
	}
}

// sights returns all that an account says from a time on, to who looks.
func (r *rings) sights(i int, from time.Duration) seen {
	is := seen{from: from, account: true}
	for n, at := range r.readings {
		if at < from {
			continue
		}
		r.set(i, at)
		v, err := r.loaders[i].Peek(context.Background(), r.sample)
		if err != nil {
			panic(err)
		}
		is.sights[n].left[shared] = v.Limits[0].Remaining
		is.sights[n].tally[shared][0].At = int64(v.Limits[0].Reset)
	}
	r.set(i, from)
	return is
}
