// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/lab/judge"
)

// A turn is a part of a round, in which all clients do what they do.
type turn struct {
	calm    bool // the clocks agree, and did so for two windows
	elapsed judge.Spread
	part    int // of the round, where the clocks are moved between
	parts   int
	round   int64
}

// share is the part of n that falls on this turn: together all parts make n.
func (t turn) share(n int) int { return n*(t.part+1)/t.parts - n*t.part/t.parts }

// crowd is the honest clients, and how many there are of each kind.
type crowd struct {
	steady  []*caller
	full    []*fullClient
	browser []*caller
	buyers  []*caller
	holders []*holder
	body    []*caller
}

const (
	steadyEach  = 5 // requests of a round: an eighth of the quota, so that it has room whatever the clocks do
	browserEach = 6
	buyerEach   = 2
	payerEach   = 8
	bodyEach    = 2
	bodySize    = 64 << 10
)

func (w *world) crowd() *crowd {
	c := &crowd{}
	for i := range 16 {
		c.steady = append(c.steady, w.caller(windowed, "steady", i))
	}
	for i := range 3 {
		c.full = append(c.full, &fullClient{caller: w.caller(windowed, "full", i)})
		c.browser = append(c.browser, w.caller(windowed, "browser", i))
		c.buyers = append(c.buyers, w.caller(form, "buyer", i), w.caller(busy, "buyer", i))
		c.body = append(c.body, w.caller(slow, "body", i))
	}
	for i := range 2 {
		c.holders = append(c.holders, &holder{caller: w.caller(form, "holder", i), stays: i == 0})
	}
	return c
}

// run has all of the crowd do their turn at once.
func (c *crowd) run(w *world, t turn, wg *sync.WaitGroup) {
	for i, s := range c.steady {
		wg.Go(func() { w.steadily(s, i, t) })
	}
	for _, f := range c.full {
		wg.Go(func() { f.fill(t) })
	}
	for i, b := range c.browser {
		wg.Go(func() { w.browse(b, i, t) })
	}
	for i, b := range c.buyers {
		wg.Go(func() { w.useOwn(b, i, t) })
	}
	for i, h := range c.holders {
		wg.Go(func() { h.use(i, t) })
	}
	for i, b := range c.body {
		wg.Go(func() {
			for range t.share(bodyEach) {
				if a := b.send(i, strings.Repeat("x", bodySize)); !a.admitted() {
					w.unjust.Note(fmt.Sprintf("%s: %d %s", b.name, a.status, a.why))
				}
			}
		})
	}
}

// steadily uses an eighth of the quota, on one instance after the other: all of it is admitted,
// in a flood as without, and whatever the clocks do.
func (w *world) steadily(c *caller, i int, t turn) {
	phase := w.phase()
	for n := range t.share(steadyEach) {
		began := time.Now()
		a := c.send(i+n, "")
		phase.took.add(time.Since(began))
		phase.planned.Add(1)
		if a.admitted() {
			phase.admitted.Add(1)
		} else {
			w.unjust.Note(fmt.Sprintf("%s: %d %s", c.name, a.status, a.why))
		}
	}
}

// A fullClient asks for more than its quota, and echoes: so much it gets, and no more.
type fullClient struct {
	*caller
	oracle oracle
}

func (f *fullClient) fill(t turn) {
	w := f.w
	f.oracle.roll(w.clocks.right.Load()/window, !t.calm)
	for n := range t.share(int(quotaOf(windowed, 1)) + 5) {
		during := w.quotas[windowed].Begin()
		a := f.send(n, "")
		if a.header == nil {
			continue // it was lost, and is noted
		}
		quota := during()
		switch {
		case a.admitted() && !f.oracle.may(t.elapsed, quota, !t.calm):
			w.excess.Note(fmt.Sprintf("%s: %+v of %d, %v into the window", f.name, f.oracle, quota.Most, t.elapsed))
		case !a.admitted() && f.oracle.must(t.elapsed, quota, !t.calm):
			w.unjust.Note(fmt.Sprintf("%s: %d %s; %+v of %d, %v into the window", f.name, a.status, a.why, f.oracle, quota.Least, t.elapsed))
		}
		if a.admitted() {
			f.oracle.used()
		}
	}
}

// browse is a page with six requests at once, to one instance.
func (w *world) browse(c *caller, i int, t turn) {
	var wg sync.WaitGroup
	tabs := make([]caller, t.share(browserEach))
	for n := range tabs {
		tabs[n] = *c
		wg.Go(func() {
			if a := tabs[n].send(i, ""); !a.admitted() {
				w.unjust.Note(fmt.Sprintf("%s: %d %s", c.name, a.status, a.why))
			}
		})
	}
	wg.Wait()
	for n := range tabs {
		c.token = tabs[n].token // the last answer is what a jar keeps
	}
}

// useOwn buys a tally where it has none, and uses it everywhere.
func (w *world) useOwn(c *caller, i int, t turn) {
	if c.token != "" && expiry(c.token) <= w.clocks.right.Load()+12*window {
		c.token = "" // it would end before it may buy the next
	}
	if c.token == "" {
		if !t.canBuy() {
			return
		}
		own, err := c.buy(i, i+1)
		if own == "" {
			w.unjust.Note(fmt.Sprintf("%s: its proof is not accepted: %v", c.name, err))
			return
		}
		c.token = own
	}
	for n := range t.share(buyerEach) {
		if a := c.send(i+n, ""); !a.admitted() {
			w.unjust.Note(fmt.Sprintf("%s: %d %s", c.name, a.status, a.why))
		}
	}
}
