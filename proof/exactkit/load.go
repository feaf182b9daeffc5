// SPDX-License-Identifier: Apache-2.0

package exactkit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
)

// A Fault befalls a server, or the way to it, and passes.
type Fault struct {
	Name         string
	Strike, Heal func()
	Loses        bool // what was counted before
	Forgets      bool // the IDs of before
}

// OfAServer has the faults of the network to it, and its own.
func OfAServer(p *Proxy, kill, start, freeze, thaw func()) []Fault {
	return []Fault{
		{Name: "cut in the middle of answers", Strike: func() { p.Set(Ways{CutAfter: 2}); p.Cut() }, Heal: func() { p.Set(Ways{}) }},
		{Name: "drops answers", Strike: func() { p.Set(Ways{Swallow: true}) }, Heal: func() { p.Set(Ways{}); p.Cut() }},
		{Name: "killed and restarted", Strike: kill, Heal: start},
		{Name: "frozen", Strike: freeze, Heal: thaw},
	}
}

// AmidALoad has each fault strike in the middle of a load of callers, and pass. Meanwhile calls
// fail by their deadlines; what was answered stays counted, nothing is counted twice
// under its ID, and the limit holds. open opens the counter for one fault.
func AmidALoad(t *testing.T, all []Fault, deadline time.Duration, open func(t *testing.T) exact.Counter) {
	policy := PerYear(t, quota)
	for _, f := range all {
		t.Run(f.Name, func(t *testing.T) { amidALoad(t, f, deadline, policy, open(t)) })
	}
}

// The load: callers that make a hundred calls each. The quota is less than half of the calls.
const callers, quota = 8, 300

func amidALoad(t *testing.T, f Fault, deadline time.Duration, policy *exact.Policy, c exact.Counter) {
	var admitted, maybe, failed, late atomic.Int64
	take := func(id string) error {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		v, err := c.Take(ctx, exact.Call{Key: f.Name, Cost: 1, Policy: policy, ID: id})
		if err == nil && v.Admitted {
			admitted.Add(1)
		}
		return err
	}
	struck, healed := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for w := range callers {
		wg.Go(func() {
			for n := range 100 {
				if n == 50 {
					<-struck // or the first would be done before
				}
				id, began := fmt.Sprint(w, "-", n), time.Now()
				err := take(id)
				counted := errors.Is(err, exact.ErrMaybeCounted)
				for early := true; early && err != nil; { // a busy machine is late before the fault: a caller that waited for its cure would wait for good
					select {
					case <-struck:
						early = false
					case <-time.After(time.Millisecond):
						err = take(id)
						counted = counted || errors.Is(err, exact.ErrMaybeCounted)
					}
				}
				if err == nil {
					continue
				}
				failed.Add(1)
				if counted {
					maybe.Add(1)
				}
				<-healed // so that the fault costs each caller one deadline
				for end := time.Now().Add(Patient); err != nil && time.Now().Before(end); {
					err = take(id)
				}
				if err != nil {
					t.Error(err)
				}
				if counted && time.Since(began) > exact.IDLife {
					late.Add(1)
				}
			}
		})
		if w == 0 {
			require.Eventually(t, func() bool { return admitted.Load() > 10 }, Patient, time.Millisecond)
			f.Strike()
			close(struck)
		}
	}
	require.Eventually(t, func() bool { return failed.Load() >= callers }, Patient, time.Millisecond, "no call hangs")
	f.Heal()
	close(healed)
	wg.Wait()
	t.Logf("%d calls failed; %d of them may have been counted", failed.Load(), maybe.Load())
	got := admitted.Load()
	switch {
	case f.Loses:
		require.GreaterOrEqual(t, got, int64(quota))
		require.LessOrEqual(t, got, int64(2*quota), "what it counted is gone, once")
	case f.Forgets:
		require.LessOrEqual(t, got, int64(quota))
		require.GreaterOrEqual(t, got+maybe.Load(), int64(quota), "what may have been counted, and no more, was charged twice")
	default: // of those on a machine so busy that an ID was over meanwhile, any may have been charged twice
		require.LessOrEqual(t, got, int64(quota))
		require.GreaterOrEqual(t, got+late.Load(), int64(quota), "of 800 calls, each repeated by its ID until it was answered")
	}
	require.Zero(t, Left(t, c, exact.Call{Key: f.Name, Cost: 1, Policy: policy}))
}
