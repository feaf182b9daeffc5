// SPDX-License-Identifier: Apache-2.0

package exactkit

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
)

// A failing counter answers twenty calls, the third of them too late, and then waits for its fault. While that
// lasts it counts every other call, without an answer.
type failing struct {
	exact.Counter
	calls, mute    atomic.Int64
	struck, healed chan struct{}
}

func (c *failing) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	n := c.calls.Add(1)
	if n <= 20 {
		v, err := c.Counter.Take(ctx, call)
		if n == 3 {
			err = exact.ErrMaybeCounted
		}
		return v, err
	}
	<-c.struck
	select {
	case <-c.healed:
		return c.Counter.Take(ctx, call)
	default:
	}
	c.mute.Add(1)
	if n%2 == 0 {
		if _, err := c.Counter.Take(ctx, call); err != nil {
			return exact.Verdict{}, err
		}
	}
	return exact.Verdict{}, exact.ErrMaybeCounted
}

func TestAmidALoad(t *testing.T) {
	c := &failing{Counter: memory.New(100, time.Now), struck: make(chan struct{}), healed: make(chan struct{})}
	fault := Fault{Name: "mute", Strike: func() { close(c.struck) }, Heal: func() { close(c.healed) }}
	AmidALoad(t, []Fault{fault}, Patient, func(*testing.T) exact.Counter { return c })
	require.EqualValues(t, callers, c.mute.Load(), "each caller met the fault, once")
}
