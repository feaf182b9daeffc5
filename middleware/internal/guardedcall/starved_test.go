// SPDX-License-Identifier: Apache-2.0

package guardedcall

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
)

// times has one call after the other time out, each after a pause, until it is an outage or
// the time is over. Their deadlines are noticed with a delay. It returns how many were load,
// how many had the policy's choice, and after how long it was an outage.
func times(t *testing.T, p *part, long, pause time.Duration, delay func(n int) time.Duration) (load, choice int, outage time.Duration) {
	t.Helper()
	terms, began := terms{aDeadline, 8}, time.Now()
	for n := 0; time.Since(began) < long; n++ {
		now := time.Now()
		ticket, outcome, err := p.enter(now, time.Now, Payer, "k", terms)
		require.NoError(t, err)
		require.Equal(t, Answered, outcome)
		time.Sleep(aDeadline + delay(n))
		p.leave(&ticket, late, terms)
		switch p.judge(&ticket, failure{began: now, ended: time.Now(), late: true, delay: delay(n)}, terms) {
		case Busy:
			load++
		case Failed:
			choice++
		case Down:
			return load, choice, time.Since(began)
		}
		time.Sleep(pause)
	}
	return load, choice, 0
}

// Deadlines that this process notices late are its own load, and those around them; but a
// counter that has answered nobody for ten seconds is out, however busy the process is.
func TestLateDeadlinesAreLoad(t *testing.T) {
	const slow, busy = 10 * time.Millisecond, 10 * time.Second // as docs/counters.md has it
	for name, row := range map[string]struct {
		delay  func(n int) time.Duration
		outage time.Duration // at the earliest; at the latest two calls later
		load   bool          // none but load until then
	}{
		"in time":               {func(int) time.Duration { return 0 }, 4 * aDeadline, false},
		"a little late":         {func(int) time.Duration { return slow }, 4 * aDeadline, false},
		"late":                  {func(int) time.Duration { return slow + 1 }, busy, true},
		"one of four is late":   {func(n int) time.Duration { return time.Duration(1-min(n%4, 1)) * 30 * time.Millisecond }, busy, true},
		"late for two seconds":  {func(n int) time.Duration { return time.Duration(1-min(n/8, 1)) * 30 * time.Millisecond }, 8*280*time.Millisecond + breakPause - 200*time.Millisecond, true},
		"a machine that slept":  {func(n int) time.Duration { return time.Duration(1-min(n, 1)) * time.Hour }, time.Hour + breakPause - 200*time.Millisecond, true},
		"quota of cpu, used up": {func(n int) time.Duration { return time.Duration(n%2) * 50 * time.Millisecond }, busy, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				load, choice, outage := times(t, new(part), 2*time.Hour, 200*time.Millisecond, row.delay)
				t.Logf("%d load, %d by choice, an outage after %s", load, choice, outage)
				require.GreaterOrEqual(t, outage, row.outage)
				require.LessOrEqual(t, outage, row.outage+3*breakPause/2)
				if row.load {
					require.Zero(t, choice)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		p := &part{answers: 1}
		p.starved = time.Now()
		ticket := ticket{holder: p.turns.force(Payer, "k")}
		require.Equal(t, Busy, p.judge(&ticket, failure{began: time.Now(), ended: time.Now(), late: true}, terms{aDeadline, 8}), "others were answered")
		p.breaker.note(time.Now())
		ticket.seen.answers = 1
		require.Equal(t, Busy, p.tired(&ticket, time.Now(), terms{aDeadline, 8}), "in the queue")
		time.Sleep(breakPause)
		require.Equal(t, Failed, p.tired(&ticket, time.Now(), terms{aDeadline, 8}))
	})
	synctest.Test(t, func(t *testing.T) {
		p := new(part)
		p.noteDelay(time.Second, terms{10 * time.Second, 8})
		require.False(t, p.isStarved(), "of ten seconds one explains nothing")
		p.noteDelay(2*time.Second, terms{10 * time.Second, 8})
		require.True(t, p.isStarved())
	})
}

// An engine that comes back late from a deadline that was noticed in time is dead all the same.
func TestAnEngineThatDawdlesIsNoLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Guard{Counter: dawdling{}, Deadline: aDeadline, InFlight: 8}
		began := time.Now()
		outcome := Answered
		for outcome != Down {
			require.Less(t, time.Since(began), 3*time.Second)
			_, outcome, _ = g.Take(context.Background(), time.Now(), time.Now, Payer, exact.Call{Key: "k"})
			require.NotEqual(t, Busy, outcome)
		}
	})
}

// dawdling is a counter that says good-bye to a server that is dead.
type dawdling struct{ exact.Counter }

func (dawdling) Take(ctx context.Context, _ exact.Call) (exact.Verdict, error) {
	<-ctx.Done()
	time.Sleep(4 * aDeadline)
	return exact.Verdict{}, ctx.Err()
}

// A bell that has not rung yet is as late as it is.
func TestABellIsAsLateAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), aDeadline)
		defer cancel()
		b := ringAt(ctx)
		require.Zero(t, b.delay())
		b.timer.Stop() // as if it had no turn
		time.Sleep(aDeadline + 30*time.Millisecond)
		require.Equal(t, 30*time.Millisecond, b.delay())
		b.rang.Store(int64(20 * time.Millisecond))
		require.Equal(t, 20*time.Millisecond, b.delay())
	})
}

// A call that has waited in vain says what became of those before it, and not that it may have been counted.
func TestSilenceHasAReason(t *testing.T) {
	require.ErrorIs(t, errSilent(nil), exact.ErrNotCounted)
	require.ErrorContains(t, errSilent(nil), context.DeadlineExceeded.Error())
	why := fmt.Errorf("http://10.0.0.8:9000: %w", exact.ErrMaybeCounted)
	require.ErrorIs(t, errSilent(why), exact.ErrNotCounted)
	require.NotErrorIs(t, errSilent(why), exact.ErrMaybeCounted)
	require.ErrorContains(t, errSilent(why), "http://10.0.0.8:9000")
}
