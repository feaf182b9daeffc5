// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/house"
)

const (
	back     = 3 * window  // by how much a clock is wrong
	leap     = 20 * window // of all clocks, after a cycle
	passEach = 6           // after so many cycles all tokens end
)

// minima are what must have happened before a run is over, however slow the machine is.
func (w *world) minima() bool {
	return w.happened() && w.quiet.rounds.Load() >= 2*ofCycle && w.flood.rounds.Load() >= 2*ofCycle
}

// play plays cycles until the time is over, or ctx is done.
func (w *world) play(ctx context.Context) {
	inner, stop := context.WithCancel(ctx)
	var free sync.WaitGroup
	defer free.Wait()
	defer stop()
	for i := range uint64(2) {
		free.Go(func() { w.wander(inner, i) })
	}
	free.Go(func() { w.operate(inner) })
	c := append(w.honest(), w.streams()...)
	for began, cycle := time.Now(), int64(0); ctx.Err() == nil; cycle++ {
		w.cycle(ctx, cycle, c)
		over := time.Since(began) >= w.set.length && w.minima() && cycle%2 == 1
		if w.set.cycles > 0 {
			over = cycle+1 == w.set.cycles
		}
		if over {
			return
		}
	}
}

func (w *world) cycle(ctx context.Context, number int64, honest []func(turn)) {
	strike := func() {}
	clients := slices.Concat(honest, w.villains(ctx), w.payers(func() { strike() }))
	waiter := w.friend(form, "waiter", 0)
	ticket := ""
	var floods sync.WaitGroup
	inFlood := number%2 == 1
	w.flooding.Store(inFlood)
	if inFlood {
		for i := range flooders {
			floods.Go(func() { w.floods(ctx, i) })
		}
	}
	for kind := range ofCycle {
		if ctx.Err() != nil {
			break
		}
		pace := time.NewTimer(w.set.round)
		w.Touched.Store(kind >= stepped)
		t := turn{calm: kind < stepped, agree: true, parts: 1, round: w.rounds}
		strike = func() {}
		var wg sync.WaitGroup
		switch kind {
		case calmly:
			ticket = waiter.Ask(fleet.Request{Method: http.MethodGet, Path: fleet.TicketPath}).Ticket()
		case killed:
			strike = w.kill
			wg.Go(func() { // somebody without a script, who comes back with a ticket
				if ticket == "" {
					w.Unjust.Note("somebody without a script gets no ticket")
				} else {
					w.wants(waiter, waiter.Ask(fleet.Request{To: 1, Cookie: ticket}), "")
				}
			})
		case wobbling:
			t.agree = false
			wg.Go(func() { w.revive(ctx) })
			wg.Go(func() { w.wobble(int(number) % instances) })
		case skewed:
			t.agree = false
			w.Fail(w.ahead(int(number)%instances, permitted))
		case restarted:
			t.agree = false
			w.restarting.Store(true)
			wg.Go(func() {
				defer w.restarting.Store(false)
				w.restart(ctx, 1+int(number)%(instances-1))
				w.Fail(w.wrong())
			})
		case stepped:
			t.parts = 3
		}
		w.Apart.Store(!t.agree)
		for t.part = range t.parts {
			if kind == stepped {
				w.step(int(number)%instances, t.part)
			}
			here := t
			for _, do := range clients {
				wg.Go(func() { do(here) })
			}
			wg.Wait()
		}
		w.rounds++
		w.phase().rounds.Add(1)
		select {
		case <-pace.C:
		case <-ctx.Done():
		}
		if t.canBuy() && ctx.Err() == nil {
			for i := range newcomers { // so late that a flood has made the instances busy
				wg.Go(func() { w.arrive(i) })
			}
			wg.Wait()
		}
		if w.Down.Now()%2 == 1 && kind != killed && ctx.Err() == nil {
			w.revive(ctx)
		}
		w.endRound()
	}
	w.flooding.Store(false)
	floods.Wait()
	if ctx.Err() == nil {
		w.settle(ctx, false)
	}
	if (number+1)%passEach == 0 {
		w.Fail(w.House.Advance(pass(w.exact, w.House.Clock.Load())))
	} else {
		w.Fail(w.House.Advance(leap))
	}
	w.Close(w.House.Clock.Load())
}

// endRound looks at the instances while nobody sends anything, and goes on to the next window.
func (w *world) endRound() {
	w.standing.Lock()
	defer w.standing.Unlock()
	for end := time.Now().Add(patience); w.House.Proxy == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
		w.Rest()
		n := int64(0)
		for _, p := range w.House.Instances {
			var s house.State
			w.Fail(p.Get("state", &s))
			n += s.Connections
		}
		if n == 0 {
			break
		}
	}
	first := w.hear()
	w.heap = append(w.heap, float64(first.Heap))
	w.goroutines = append(w.goroutines, float64(first.Goroutines))
	w.Fail(w.House.Advance(window))
}

// step sets a clock back by three windows, and forward again.
func (w *world) step(instance, part int) {
	at := w.House.Clock.Load()
	switch part {
	case 1:
		w.Fail(w.ahead(instance, -back))
		w.Oracle.Restart(instance, at)
		w.Oracle.Restart(instance, at-back)
		w.Steps.Add(1)
	case 2:
		w.Fail(w.ahead(instance, 0))
		w.Steps.Add(1)
	}
}

// wobble has a clock go to and fro.
func (w *world) wobble(instance int) {
	for range 50 {
		w.Fail(w.ahead(instance, rand.Int64N(permitted+1)))
		w.Steps.Add(1)
		time.Sleep(time.Millisecond) // requests in between; nothing hangs on how many
	}
	w.Fail(w.ahead(instance, 0))
}

// ahead has the clock of one instance differ from the true time.
func (w *world) ahead(instance int, seconds int64) error {
	return w.House.Set(instance, w.House.Clock.Load()+seconds)
}

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

// window is the length of every window here, in seconds, and middle is where in it a round
// begins: far enough from both ends that clocks which disagree as they may are in one window.
//
// Clocks are moved by hand between rounds: so what is admitted hangs on counts, and not on how fast the machine is.
const (
	window = 60
	middle = 20
)

// begin is where the clocks begin: in the middle of a window of the exact routes, in or about 2026.
func begin(exact int64) int64 {
	return time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC).Unix()/exact*exact + halfway(exact)
}

func halfway(exact int64) int64 { return exact/2/window*window + middle }

// pass is by how much the clocks are put forward until all tokens have ended, those of the exact routes too, and
// again into the middle of a window of theirs: no cycle may see two of them.
func pass(exact, now int64) int64 { return 3*exact + halfway(exact) - now%exact }
