package nats_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
)

// A fault befalls a server, or the way to it, in the middle of a load, and passes. Meanwhile
// calls fail by their deadlines; what was answered stays counted, nothing is counted twice
// under its ID, and the limit holds.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes half a minute")
	}
	s := startServer(t)
	p := startProxy(t, s.port)
	for _, f := range []struct {
		name         string
		strike, heal func()
	}{
		{"killed and restarted", s.kill, s.start},
		{"frozen", func() { s.signal(syscall.SIGSTOP) }, func() { s.signal(syscall.SIGCONT) }},
		{"cut in the middle of answers", func() { p.set(func(p *proxy) { p.cutAfter = 2 }); p.cut() }, func() { p.set(func(p *proxy) { p.cutAfter = 0 }) }},
		{"drops answers", func() { p.set(func(p *proxy) { p.swallow = true }) }, func() { p.set(func(p *proxy) { p.swallow = false }); p.cut() }},
	} {
		t.Run(f.name, func(t *testing.T) {
			const limit, callers = 300, 8
			store, _ := connect(t, p.url())
			c, policy := count(t, store), compile(t, yearly(limit))
			var admitted, maybe, failed atomic.Int64
			healed := make(chan struct{})
			var wg sync.WaitGroup
			take := func(id string) error {
				ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
				defer cancel()
				v, err := c.Take(ctx, exact.Call{Key: f.name, Cost: 1, Policy: policy, ID: id})
				if err == nil && v.Admitted {
					admitted.Add(1)
				}
				return err
			}
			for w := range callers {
				wg.Go(func() {
					for n := range 100 {
						id := fmt.Sprint(w, "-", n)
						err := take(id)
						if err == nil {
							continue
						}
						failed.Add(1)
						if errors.Is(err, exact.ErrMaybeCounted) {
							maybe.Add(1)
						}
						<-healed // so that the fault costs each caller one deadline
						for end := time.Now().Add(patient); err != nil && time.Now().Before(end); {
							err = take(id)
						}
						if err != nil {
							t.Error(err)
						}
					}
				})
				if w == 0 {
					require.Eventually(t, func() bool { return admitted.Load() > 10 }, patient, time.Millisecond)
					f.strike()
				}
			}
			require.Eventually(t, func() bool { return failed.Load() >= callers }, patient, time.Millisecond, "no call hangs")
			f.heal()
			close(healed)
			wg.Wait()
			t.Logf("%d calls failed, of which %d may have been counted", failed.Load(), maybe.Load())
			require.EqualValues(t, limit, admitted.Load(), "of 800 calls, each repeated by its ID until it was answered")
			v, err := c.Peek(t.Context(), exact.Call{Key: f.name, Cost: 1, Policy: policy})
			require.NoError(t, err)
			require.Zero(t, v.Limits[0].Remaining)
		})
	}
}

// A call to a server that is not there ends at once, and says that it was not counted.
func TestNotConnectedIsNotCounted(t *testing.T) {
	s := startServer(t)
	store, js := connect(t, s.url())
	s.kill()
	require.Eventually(t, func() bool { return !js.Conn().IsConnected() }, patient, time.Millisecond)
	_, err := count(t, store).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: compile(t, yearly(5))})
	require.ErrorIs(t, err, exact.ErrNotCounted)
	require.ErrorIs(t, store.Swap(t.Context(), "n", "0", []byte("v"), time.Hour), exact.ErrNotCounted)
}
