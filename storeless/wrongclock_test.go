package storeless_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/storeless"
)

// An echoer is an honest client: it shows the newest tally it was given, which is
// that of an admission, or of a refusal that had news for it.
type echoer struct {
	p     *storeless.Policy
	holds storeless.Tally
	deaf  bool // takes no tally from refusals
}

func (c *echoer) ask(m *storeless.Memory, now time.Time) storeless.Verdict {
	t, v := storeless.Take(m, c.p, now, &storeless.Family{Key: 1, Shown: c.holds}, 1)
	if v.Admitted || !c.deaf && c.p.Exceeds(now, t, c.holds) {
		c.holds = t
	}
	return v
}

// refusedFor asks once a second until something is admitted.
func (c *echoer) refusedFor(t *testing.T, m *storeless.Memory, now time.Time) time.Duration {
	for from := now; ; now = now.Add(second) {
		if c.ask(m, now).Admitted {
			return now.Sub(from)
		}
		require.Less(t, now.Sub(from), 2*hour, "locked out")
	}
}

// After a step back nobody waits longer than a spent bucket needs: not a client
// that echoes the mark of the clock that was wrong, even one that takes nothing
// from refusals, and to whatever instance it goes.
func TestStepBackForEchoers(t *testing.T) {
	for _, row := range []struct {
		limit storeless.Limit
		wait  time.Duration // of one unit, in whole seconds
	}{
		{storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 5, Window: second}, second},
		{storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 5, Window: second}, second},
		{storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 60, Window: minute}, second},
		{storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 12, Window: minute}, 5 * second},
		{storeless.Limit{Quota: 5, Window: minute}, 0},
		{storeless.Limit{Algorithm: storeless.FixedWindow, Quota: 5, Window: minute}, 0},
	} {
		for _, back := range []time.Duration{10 * minute, 50 * minute, 2 * hour} {
			for name, place := range map[string]struct{ same, memory, deaf bool }{
				"one instance": {same: true, memory: true},
				"one instance, a client deaf to refusals":       {same: true, memory: true, deaf: true},
				"one without a memory":                          {},
				"another whose clock is right":                  {memory: true},
				"another, to a client that is deaf to refusals": {memory: true, deaf: true},
			} {
				t.Run(row.limit.Algorithm.String()+"/"+row.limit.Window.String()+"/"+back.String()+"/"+name, func(t *testing.T) {
					c := &echoer{p: compile(t, row.limit), deaf: place.deaf}
					var m *storeless.Memory
					if place.memory {
						m = storeless.NewMemory(1, 1)
					}
					require.True(t, c.ask(m, midnight).Admitted)
					if place.memory && !place.same {
						m = storeless.NewMemory(1, 1)
					}
					require.LessOrEqual(t, c.refusedFor(t, m, midnight.Add(-back)), row.wait)
				})
			}
		}
	}
}
