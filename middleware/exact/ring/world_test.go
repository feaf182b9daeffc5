// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/ring"
)

// A world is processes that ask each other without a network, by a clock that is moved by hand.
type world struct {
	t     testing.TB
	clock *exacttest.Clock
	all   []*process // and those that are gone
	cut   map[[2]*process]bool

	started int
	lose    atomic.Int64 // so many answers from now on
	calls   atomic.Int64 // that were carried
}

// A process of a world. Of one that is gone, the address is used by no other.
type process struct {
	*ring.Ring
	address string
	gone    bool
}

func newWorld(t testing.TB) *world {
	return &world{t: t, clock: exacttest.NewClock(), cut: make(map[[2]*process]bool)}
}

// start starts a process, which has a list of its own.
func (w *world) start(list ...string) *process {
	w.started++
	p := &process{address: fmt.Sprintf("10.0.%d.%d:9000", w.started/200, 1+w.started%200)}
	if len(list) == 0 {
		list = []string{p.address}
	}
	cfg := ring.Config{Self: p.address, Members: []string{p.address}, Secrets: secrets, Transport: way{w, p}, Logger: silent, Now: w.clock.Now}
	var err error
	p.Ring, err = ring.OpenDeaf(cfg, nil)
	require.NoError(w.t, err)
	p.Adopt(list...)
	w.all = append(w.all, p)
	return p
}

// fleet starts n processes that know each other.
func (w *world) fleet(n int) []*process {
	for range n {
		w.start()
	}
	for _, p := range w.all {
		p.Adopt(addresses(w.all)...)
	}
	return w.all
}

func addresses(of []*process) (list []string) {
	for _, p := range of {
		list = append(list, p.address)
	}
	return list
}

func (w *world) at(address string) *process {
	for _, p := range w.all {
		if p.address == address {
			return p
		}
	}
	return nil
}

// A way is how a process reaches the others.
type way struct {
	*world
	from *process
}

var errWay = errors.New("the network is in pieces")

func (w way) RoundTrip(r *http.Request) (*http.Response, error) {
	to := w.at(r.URL.Host)
	if to == nil || to.gone || w.cut[[2]*process{w.from, to}] {
		return nil, errWay
	}
	w.calls.Add(1)
	httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{}) // by which package remote knows that it was sent
	rec := httptest.NewRecorder()
	to.Handler().ServeHTTP(rec, r)
	if w.lose.Load() > 0 && w.lose.Add(-1) >= 0 {
		return nil, errWay
	}
	return rec.Result(), nil
}
