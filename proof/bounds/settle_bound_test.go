// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// A spending lists what a client was admitted for, in order, and what it has cost in truth.
type spending struct {
	bills  []*bill
	events int
}

type bill struct {
	at               int64 // µs
	estimate, cost   int64
	admitted, closed int // in the order of all events; closed is 0 while it is under way
}

func (s *spending) admit(at time.Time, estimate int64) *bill {
	s.events++
	i := &bill{at: at.UnixMicro(), estimate: estimate, cost: estimate, admitted: s.events}
	s.bills = append(s.bills, i)
	return i
}

func (s *spending) close(i *bill, cost int64) {
	s.events++
	i.cost, i.closed = cost, s.events
}

// tooLow is the most that what was under way at once was estimated too low.
func (s *spending) tooLow() (most int64) {
	for n, last := range s.bills {
		u := int64(0)
		for _, i := range s.bills[:n+1] {
			if i.closed > last.admitted {
				u += max(0, i.cost-i.estimate)
			}
		}
		most = max(most, u)
	}
	return most
}

// requireBound checks the row of the table: what a limit admits in a window, and what was under way was estimated too
// low. Of buckets, in any time, with what is lost in each window; a counter loses nothing.
func (s *spending) requireBound(t *testing.T, l middleware.Limit, loses bool) {
	t.Helper()
	u, window := s.tooLow(), l.Window.Microseconds()
	if l.Algorithm != middleware.TokenBucket && l.Algorithm != storeless.LeakyBucket {
		windows := map[int64]int64{}
		for _, i := range s.bills {
			windows[i.at/window] += i.cost
		}
		for w, cost := range windows {
			require.LessOrEqual(t, cost, l.Quota+u, "window %d", w)
		}
		return
	}
	burst, step, lost := max(1, l.Burst), interval(l), int64(0)
	if loses {
		lost = max(0, u-burst-window/step)
	}
	for n, first := range s.bills {
		cost := int64(0)
		for _, last := range s.bills[n:] {
			cost += last.cost
			span := last.at - first.at
			require.LessOrEqual(t, cost, burst+span/step+u+max(0, span-1)/window*lost, "in %d µs from %d", span, first.at)
		}
	}
}

// TestSettleBound: L and what the requests under way at once were estimated too low, for every algorithm and every
// counter, whatever is shown, and whenever it is settled: in the handler, after it, or much later with others
// under way. Costs are 0 (Refund), below the estimate, above it, and far above all there is.
func TestSettleBound(t *testing.T) {
	seeds := uint64(4)
	if !kit.Whole() {
		seeds = 2
	}
	for name, l := range map[string]middleware.Limit{
		"fixed window":   {Algorithm: middleware.FixedWindow, Quota: 10, Window: 20 * time.Second},
		"sliding window": {Algorithm: storeless.SlidingWindow, Quota: 10, Window: 20 * time.Second},
		"token bucket":   {Algorithm: middleware.TokenBucket, Quota: 10, Window: 20 * time.Second, Burst: 6},
		"small burst":    {Algorithm: middleware.TokenBucket, Quota: 10, Window: 20 * time.Second, Burst: 1},
		"large burst":    {Algorithm: middleware.TokenBucket, Quota: 10, Window: 20 * time.Second, Burst: 40},
		"leaky bucket":   {Algorithm: storeless.LeakyBucket, Quota: 10, Window: 20 * time.Second},
	} {
		for _, w := range []settleWorld{
			{name: "one instance", instances: 1},
			{name: "one instance that nothing is shown", instances: 1, shows: "nothing"},
			{name: "two, which are told all", instances: 2, alone: true},
			{name: "two", instances: 2},
			{name: "two, which are shown old tokens", instances: 2, shows: "any"},
			{name: "two, which are shown nothing", instances: 2, shows: "nothing"},
			{name: "an own tally", instances: 1, own: true},
			{name: "an own tally, two instances", instances: 2, own: true, shows: "any"},
			{name: "an exact counter", instances: 2, exact: true},
			{name: "one whose burst changes", instances: 1, changes: true},
			{name: "counted by outcome", instances: 2, outcome: true, shows: "any"},
		} {
			t.Run(name+"/"+w.name, func(t *testing.T) {
				for seed := range seeds {
					w.play(t, l, rand.New(rand.NewPCG(seed, 0x5e771e)))
				}
			})
		}
	}
}

// A settleWorld is a program that settles, and a client of it.
type settleWorld struct {
	name      string
	instances int
	shows     string // the newest token, or "any", or "nothing"
	own       bool   // a tally that was bought
	exact     bool
	changes   bool // Reconfigure to smaller and smaller bursts, or to any quota
	outcome   bool // all of them fail, and only failures count
	alone     bool // one request at a time, settled before its header: every instance hears of it
}

func (w settleWorld) play(t *testing.T, l middleware.Limit, r *rand.Rand) {
	c := new(handlers.Clock)
	cfg := handlers.Metered(handlers.Contact(c), 1)
	switch {
	case w.own:
		cfg = handlers.Metered(handlers.Challenging(c, middleware.Newcomers), 1)
	case w.exact:
		cfg = handlers.Metered(handlers.Paid(c, memory.New(0, c.Now)), 1)
	}
	cfg.Limits = []middleware.Limit{l}
	if w.outcome {
		cfg.Limits[0].Name = "failures"
		cfg.Limits = append(cfg.Limits, middleware.Limit{Name: "all", Quota: storeless.MaxQuota, Window: time.Hour})
		cfg.ByOutcome = &middleware.ByOutcome{Limits: []string{"failures"}, Free: []int{http.StatusSeeOther}}
	}
	fleet, each := make([]*handlers.Site, w.instances), make([]spending, w.instances)
	var all spending
	for i := range fleet {
		fleet[i] = handlers.NewSite(t, cfg)
	}
	var wallet []string
	if w.own {
		wallet = append(wallet, handlers.Bought(t, fleet[0]))
	}
	estimates := min(4, l.Quota)
	if b := max(l.Burst, 1); l.Algorithm == middleware.TokenBucket || l.Algorithm == storeless.LeakyBucket {
		estimates = min(4, b)
	}
	dear := int64(5000)
	if w.exact {
		dear = 60 // all of it is owed
	}
	var underway []func()
	for range 150 {
		c.Advance(time.Duration(r.Int64N(int64(4 * time.Second))))
		i, estimate := r.IntN(w.instances), 1+r.Int64N(estimates)
		if w.changes && r.IntN(10) == 0 {
			other := &cfg.Limits[0]
			if other.Algorithm == middleware.TokenBucket {
				other.Burst = estimates + r.Int64N(other.Burst-estimates+1)
			} else if other.Algorithm != storeless.LeakyBucket {
				other.Quota = 5 + r.Int64N(6)
			}
			require.NoError(t, fleet[i].M.Reconfigure(cfg))
		}
		cost := [...]int64{0, r.Int64N(estimate + 1), r.Int64N(12), r.Int64N(12), r.Int64N(dear)}[r.IntN(5)]
		when := r.IntN(3)
		fleet[i].Spy.Serve = func(rw http.ResponseWriter, req *http.Request) {
			defer rw.WriteHeader(http.StatusAccepted)
			parts, bills := [2]*spending{&each[i], &all}, [2]*bill{}
			for n, s := range parts {
				bills[n] = s.admit(c.Now(), estimate)
			}
			settle := func() {
				if err := middleware.Settle(req, cost); !w.exact || !errors.Is(err, exact.ErrNoRefund) {
					require.NoError(t, err) // a window that has ended gives nothing back
				}
				require.ErrorIs(t, middleware.Settle(req, 1), exact.ErrNoRefund, "twice")
				for n, s := range parts {
					s.close(bills[n], cost)
				}
			}
			if w.alone || when == 0 {
				settle()
				return
			}
			underway = append(underway, settle)
		}
		tok := ""
		switch {
		case len(wallet) == 0:
		case w.shows == "any":
			tok = wallet[r.IntN(len(wallet))]
		case w.shows == "" || w.own:
			tok = wallet[len(wallet)-1]
		}
		resp := handlers.Send(fleet[i], handlers.Costing(estimate), handlers.Showing(tok))
		if got := resp.Header.Get(middleware.TokenHeader); got != "" {
			wallet = append(wallet, got)
		}
		for len(underway) > 0 && (when == 1 || r.IntN(4) == 0) {
			n := r.IntN(len(underway))
			underway[n]()
			underway = append(underway[:n], underway[n+1:]...)
		}
	}
	for _, settle := range underway {
		settle()
	}
	for i := range each {
		require.Greater(t, len(each[i].bills), 2, "the workload is admitted")
		if !w.exact {
			each[i].requireBound(t, l, true)
		}
	}
	if w.alone || w.exact {
		all.requireBound(t, l, !w.exact)
	}
}
