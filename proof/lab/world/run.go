// SPDX-License-Identifier: Apache-2.0

// Package world has some instances serve honest clients and attackers for minutes, while their secrets are rotated,
// their policies are changed, instances are replaced and clocks are wrong, and says whether anything was lost, or grew.
//
// The instances are processes that were built for the race detector, behind nginx. The CPU time of honest requests is measured on
// the thread which serves them, to which the goroutine is locked meanwhile: what attackers cost is not in it.
//
// Tallies are sold on two policies. On one holders and a farm use all of them. On the other work comes first while the instance is busy, or whatever the load, as the configuration says.
package world

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/house"
)

// Run runs a world for as long as a command line says, and reports whether all held.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) (held bool, err error) {
	f := flag.NewFlagSet("soak", flag.ContinueOnError)
	length := f.Duration("for", 5*time.Minute, "how long; longer where the machine is too slow for one of everything")
	without := f.String("without", "", "break this `defence`")
	if err := Parse(f, args, stderr); err != nil {
		return false, err
	}
	if *length <= 0 {
		return false, errors.New("-for must be more than 0")
	}
	broken, err := house.Named(*without)
	if err != nil {
		return false, err
	}
	found, err := live(ctx, settingsFor(*length), broken)
	if err != nil {
		return false, err
	}
	rows := found.rows()
	return Holds(rows), found.write(stdout, rows)
}

// Parse reads a command line that has flags alone.
func Parse(f *flag.FlagSet, args []string, stderr io.Writer) error {
	f.SetOutput(stderr)
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("what is %q?", f.Arg(0))
	}
	return nil
}

// settingsFor returns the settings of a run: what happens every second, or every 20, happens more often in
// a short one.
func settingsFor(length time.Duration) settings {
	return settings{length: length, round: min(time.Second, length/40), reconfigure: time.Second, rotate: min(20*time.Second, max(2*time.Second, length/8))}
}

// live runs a world from its beginning to its end, and returns what was found.
func live(ctx context.Context, set settings, broken *house.Breakage) (_ *findings, err error) {
	if err := house.Stands(); err != nil {
		return nil, err
	}
	if set.dir, err = os.MkdirTemp("", "tallystick-lab"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(set.dir)
	if set.program, err = house.Build(ctx, set.dir, broken, "-race"); err != nil {
		return nil, err
	}
	began := time.Now()
	w, err := openWorld(ctx, set)
	if err != nil {
		return nil, err
	}
	w.play(ctx)
	w.interrupted, w.length = ctx.Err() != nil, time.Since(began)
	w.end()
	return &w.findings, w.Failed()
}

const (
	back = 3 * window  // by how much a clock is wrong
	leap = 20 * window // of all clocks, after a cycle
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
	clients := slices.Concat(honest, w.villains(ctx), w.payers())
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
		var wg sync.WaitGroup
		switch kind {
		case calmly:
			ticket = waiter.Ask(fleet.Request{Method: http.MethodGet, Path: fleet.TicketPath}).Ticket()
		case again:
			wg.Go(func() { // a visitor without a script, which comes back with a ticket
				if ticket == "" {
					w.Unjust.Note("a visitor without a script gets no ticket")
				} else {
					w.wants(waiter, waiter.Ask(fleet.Request{To: 1, Cookie: ticket}))
				}
			})
		case wobbling:
			t.agree = false
			wg.Go(func() { w.wobble(int(number) % instances) })
		case skewed:
			t.agree = false
			w.Fail(w.ahead(int(number)%instances, permitted))
		case restarted:
			t.agree = false
			w.restarting.Store(true)
			wg.Go(func() {
				defer w.restarting.Store(false)
				w.restart(1 + int(number)%(instances-1))
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
		w.endRound()
	}
	w.flooding.Store(false)
	floods.Wait()
	w.Fail(w.House.Advance(leap))
	w.Close(w.House.Clock.Load())
}

// endRound looks at the instances while no client sends anything, and goes on to the next window.
func (w *world) endRound() {
	w.standing.Lock()
	defer w.standing.Unlock()
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
