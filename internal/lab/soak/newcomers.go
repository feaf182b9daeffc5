// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/tallystick/tallystick/middleware"
)

const (
	flooders  = 4
	newcomers = instances // to /busy, in a round

	// onTheirWay is how many requests may have been found in time on /busy, and not have been counted yet, when
	// an instance gets busy: none of those who send there without work sends two at once.
	onTheirWay = flooders + newcomers
)

// arrivals have clients come to /busy that nobody has seen before, one to each instance. They come at the end of a
// round: so a flood has made the instances busy.
func (w *world) arrivals() {
	var wg sync.WaitGroup
	for i := range newcomers {
		wg.Go(func() { w.arrive(i) })
	}
	wg.Wait()
}

// arrive is one of them. While the instance is calm it is let in. While it is busy, and where work comes first whatever the
// load, it is asked for work, and is let in with that.
func (w *world) arrive(i int) {
	c := w.caller(busy, "newcomer", i)
	during := w.workFirst.Begin()
	a := c.send(i, "")
	if a.header == nil || a.admitted() {
		if a.admitted() && !w.flooding.Load() {
			w.atOnce.Add(1)
		}
		return
	}
	busy := during().Most == 0
	if busy && !w.flooding.Load() {
		w.unjust.Note(fmt.Sprintf("%s: asked for work though nobody else has come: %d %s", c.name, a.status, a.why))
	}
	proof, err := a.solve()
	if err == nil {
		a, err = c.ask(i, http.MethodPost, "", "", middleware.ProofHeader, proof)
	}
	if err != nil || !a.admitted() {
		w.unjust.Note(fmt.Sprintf("%s: not let in with its work: %d %s %v", c.name, a.status, a.why, err))
		return
	}
	if a.part == bought {
		c.owns(a, i)
	}
	if busy {
		w.worked.Add(1)
	}
}
