// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/lab/judge"
)

// A run is cycles of seven rounds. In a round the clock stands, but for what the round does to
// it, and all clients do what they always do; then it is put forward by one window. Every other
// cycle is a flood.
const (
	calmly    = iota
	killed    // Redis is killed in the middle
	wobbling  // Redis is back; clocks go to and fro, as far as they may
	skewed    // one is ahead, as far as it may be
	stepped   // one is set back by three windows, and forward again
	afterward // for so long it may show
	settling
	ofCycle
)

const (
	permitted = 5           // seconds that clocks may differ by
	back      = 3 * window  // and by how much one is wrong
	leap      = 20 * window // after a cycle
	passEach  = 6           // after so many cycles all tokens end
)

// minima are what must have happened before a run is over, however slow the machine is.
func (w *world) minima() bool {
	return w.dropped.Load() > 0 && w.kills.Load() > 0 && w.steps.Load() > 0 && w.reconfigured.Load() > 2 &&
		w.busy.Load() > 0 && w.atOnce.Load() > 0 && w.worked.Load() > 0 && w.moved.Load() > 0 &&
		w.quiet.rounds.Load() >= 2*ofCycle && w.flood.rounds.Load() >= 2*ofCycle
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
	free.Go(func() { w.reload(inner) })
	c := w.crowd()
	for began, cycle := time.Now(), int64(0); ctx.Err() == nil; cycle++ {
		w.cycle(ctx, cycle, c, func(round string) {
			w.set.progress(fmt.Sprintf("%s of %s, %s", time.Since(began).Round(time.Second), w.set.length, round))
		})
		over := time.Since(began) >= w.set.length && w.minima() && cycle%2 == 1
		if w.set.cycles > 0 {
			over = cycle+1 == w.set.cycles
		}
		if over {
			return
		}
	}
}

// reload goes on to the next configuration again and again, and begins rotations.
func (w *world) reload(ctx context.Context) {
	configurations, rotations := time.NewTicker(w.set.reconfigure), time.NewTicker(w.set.rotate)
	defer configurations.Stop()
	defer rotations.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-configurations.C:
			w.reconfigure()
		case <-rotations.C:
			w.short.rotate()
			w.long.rotate()
		}
	}
}

var roundNames = [ofCycle]string{"calm", "Redis is killed", "clocks wobble", "a clock is ahead", "a clock is set back", "afterwards", "afterwards"}

func (w *world) cycle(ctx context.Context, number int64, c *crowd, says func(string)) {
	v, p := w.villains(), w.payers()
	waiter := w.caller(form, "waiter", 0)
	ticket := ""
	var floods sync.WaitGroup
	began := time.Now()
	inFlood := number%2 == 1
	w.flooding.Store(inFlood)
	if inFlood {
		for i := range flooders {
			floods.Go(func() { w.floods(ctx, i, w.flooding.Load) })
		}
	}
	for kind := range ofCycle {
		if ctx.Err() != nil {
			break
		}
		name := roundNames[kind]
		if inFlood {
			name += ", flood"
		}
		says(name)
		pace := time.NewTimer(w.set.round)
		w.touched.Store(kind >= stepped)
		t := turn{calm: kind < stepped, elapsed: judge.Spread{Least: middle, Most: middle}, parts: 1, round: w.rounds}
		strike := func() {}
		var wg sync.WaitGroup
		switch kind {
		case calmly:
			ticket = waiter.ticket(0)
		case killed:
			strike = w.kill
			wg.Go(func() { w.wait(waiter, ticket) })
		case wobbling:
			t.elapsed.Most += permitted
			wg.Go(func() { w.revive(ctx) })
			wg.Go(func() { w.wobble(int(number) % instances) })
		case skewed:
			t.elapsed.Most += permitted
			w.clocks.set(int(number)%instances, permitted)
		case stepped:
			t.parts = 3
		}
		for t.part = range t.parts {
			if kind == stepped {
				w.step(int(number)%instances, t.part)
			}
			here := t
			c.run(w, here, &wg)
			p.run(here, &wg, strike)
			v.run(ctx, w, here, &wg)
			wg.Wait()
		}
		w.rounds++
		w.phase().rounds.Add(1)
		select {
		case <-pace.C:
		case <-ctx.Done():
		}
		if t.canBuy() && ctx.Err() == nil {
			w.arrivals()
		}
		if w.outage.Now()%2 == 1 && kind != killed && ctx.Err() == nil {
			w.revive(ctx)
		}
		w.endRound()
	}
	if inFlood {
		w.floodTime += time.Since(began)
	}
	w.flooding.Store(false)
	floods.Wait()
	if ctx.Err() == nil {
		w.settle(ctx, false)
	}
	if (number+1)%passEach == 0 {
		w.clocks.pass()
	} else {
		w.clocks.move(leap)
	}
	w.book.close(w.clocks.right.Load() / window)
}

// free is how many connections those have at most that go on through all rounds.
const free = 8

// endRound looks at the process while no decision is made, and goes on to the next window.
func (w *world) endRound() {
	w.clocks.gate.Lock()
	w.client.CloseIdleConnections()
	for end := time.Now().Add(patience); w.connections.Load() > free && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	heap, goroutines := live()
	w.clocks.gate.Unlock()
	w.heap = append(w.heap, heap)
	w.goroutines = append(w.goroutines, float64(goroutines))
	w.clocks.move(window)
}

// step sets a clock back by three windows, and forward again.
func (w *world) step(instance, part int) {
	at := w.clocks.right.Load() / window
	switch part {
	case 1:
		w.clocks.set(instance, -back)
		w.book.restart(instance, at)
		w.book.restart(instance, at-back/window)
		w.steps.Add(1)
	case 2:
		w.clocks.set(instance, 0)
		w.steps.Add(1)
	}
}

// wobble has a clock go to and fro.
func (w *world) wobble(instance int) {
	for range 50 {
		w.clocks.set(instance, rand.Int64N(permitted+1))
		w.steps.Add(1)
		time.Sleep(time.Millisecond) // requests in between; nothing hangs on how many
	}
	w.clocks.set(instance, 0)
}

// wait is somebody without a script, who comes back with a ticket.
func (w *world) wait(c *caller, ticket string) {
	if ticket == "" {
		w.unjust.Note("somebody without a script gets no ticket")
		return
	}
	if a := c.send(1, "", "Cookie", ticket); !a.admitted() {
		w.unjust.Note(fmt.Sprintf("%s: %d %s", c.name, a.status, a.why))
	}
}
