// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
)

// A stage is an instance of a limiter and the population that is going to ask it,
// each client of which has asked once.
type stage struct {
	instance *Instance
	seats    []*seat // one for each processor in use
}

func newStage(l Limiter, t Terms, want int) (*stage, error) {
	population, err := gather(t.Clients, l.Request.Shows != Nothing)
	if err != nil {
		return nil, err
	}
	instance, err := l.New(Served(), t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Name, err)
	}
	if err := introduce(instance, l, population); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: introducing the clients: %w", l.Name, err), instance.Close())
	}
	s := &stage{instance: instance}
	n := runtime.GOMAXPROCS(0)
	for i := range n {
		seat := newSeat(instance, population, l.Request, want)
		seat.sit(i*population.size/n, (i+1)*population.size/n)
		s.seats = append(s.seats, seat)
	}
	return s, nil
}

// restart begins a new count at every seat.
func (s *stage) restart() {
	for _, seat := range s.seats {
		seat.restart()
	}
}

// introduce sends the first request of each client, without a token. The order
// is another one than that of the benchmark, lest what a limiter keeps of the
// clients lies in memory in the order in which they are going to come.
func introduce(h http.Handler, l Limiter, population *Population) error {
	workers := 1
	if l.Remote {
		workers = 16 // the clients that are on their way do not wait for each other
	}
	seats := make([]*seat, workers)
	step := stride(population.size)
	var group sync.WaitGroup
	for k := range workers {
		s := newSeat(h, population, Request{Method: l.Request.Method}, http.StatusOK)
		seats[k] = s
		group.Go(func() {
			for j := k; j < population.size; j += workers {
				s.visit(j * step % population.size)
			}
		})
	}
	group.Wait()
	return audit(seats, everybody(population.size), population.size)
}

// stride returns a step that visits all of n clients: one near the golden
// section of n, without a common factor.
func stride(n int) int {
	s := max(1, int(float64(n)*0.618))
	for gcd(s, n) != 1 {
		s++
	}
	return s
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// The largest population gathered so far: issuing a million tokens takes a second, and
// the benchmarks of a process want the same ones again.
var gathered struct {
	sync.Mutex
	population *Population
}

// gather returns a population, with tokens if asked for.
func gather(clients int, tokens bool) (*Population, error) {
	g := &gathered
	g.Lock()
	defer g.Unlock()
	if c := g.population; c != nil && c.size >= clients && (c.lines != nil || !tokens) {
		return c.first(clients), nil
	}
	population, err := NewPopulation(clients)
	if err != nil {
		return nil, err
	}
	if tokens {
		issuer, err := issuer()
		if err != nil {
			return nil, err
		}
		if err := population.Issue(issuer, cookieName); err != nil {
			return nil, err
		}
	}
	g.population = population
	return population, nil
}
