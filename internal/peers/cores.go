// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"

	"github.com/tallystick/tallystick/internal/peers/turns"
)

// Identities is the first part of the names of what MeasureIdentities measures.
const Identities = "Identities"

// Identity returns the name of a limiter there, under so many clients.
func Identity(limiter string, clients int) string {
	return fmt.Sprintf("%s/clients=%d", limiter, clients)
}

// sharers are the limiters that many processors ask at once, each with room for all clients.
func sharers() []Limiter {
	roomier := Limiter{Name: Ours + "-post", Ours: true, Request: Request{http.MethodPost, InHeader}, New: withMemory(roomy)}
	return []Limiter{roomier, limiterOf(reference), limiterOf("throttled"), limiterOf("bare")}
}

// processors returns on how many something is measured that may use all.
func processors() []int {
	all := []int{1, min(2, runtime.NumCPU()), runtime.NumCPU()}
	return slices.Compact(all)
}

// MeasureIdentities measures allowed requests of so many clients, each of which every limiter
// knows, on one processor and on several: what the time on the wall is, and how it scales.
// The heap is that of all limiters, so that a collection marks the maps of some for the sake of
// others; look at quantiles, and at BenchmarkAllowed for means, where each has its own process.
func MeasureIdentities(ctx context.Context, clients int, r Run) (err error) {
	p := r.plan(Identities, 3000, 1)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU())) // a stage has a seat for each
	var shared []*sharing
	for _, l := range sharers() {
		fmt.Fprintf(r.Progress, "%s: %s meets %d clients\n", Identities, l.Name, clients)
		stage, errNew := newStage(l, Plenty(clients), http.StatusOK)
		if errNew != nil {
			return errNew
		}
		defer func() { err = errors.Join(err, stage.instance.Close()) }()
		s := &sharing{name: l.Name, seats: stage.seats}
		shared = append(shared, s)
		for _, n := range processors() {
			p.Players = append(p.Players, turns.Player{
				Name: Identity(l.Name, clients), Cores: n,
				Run: func(requests int) { s.run(requests, n) }, After: s.after,
			})
		}
	}
	if err := turns.Measure(ctx, p, r.Out, r.Progress); err != nil {
		return err
	}
	for _, s := range shared {
		if err := audit(s.seats, nil, s.sent); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// A sharing is a limiter that several processors ask.
type sharing struct {
	name  string
	seats []*seat
	sent  int // requests
}

// run sends requests from all seats, which some goroutines divide among themselves.
func (s *sharing) run(requests, goroutines int) {
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for k := g; k < len(s.seats); k += goroutines {
				for range requests / len(s.seats) {
					s.seats[k].send()
				}
			}
		})
	}
	group.Wait()
}

// after counts what was sent, and stops at the first thing that is wrong.
func (s *sharing) after(requests int) error {
	s.sent += requests / len(s.seats) * len(s.seats)
	for _, seat := range s.seats {
		if seat.wrong+seat.alien+seat.mute > 0 {
			return audit(s.seats, nil, s.sent)
		}
	}
	return nil
}
