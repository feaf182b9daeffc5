// SPDX-License-Identifier: Apache-2.0

package guardedcall

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var breakerStart = time.Unix(1_800_000_000, 0)

const aDeadline = 50 * time.Millisecond

// fails has a call fail that set out at a time and took its deadline.
func fails(b *breaker, at time.Time) time.Time {
	b.note(at)
	b.failed(at, at.Add(aDeadline), aDeadline)
	return at.Add(aDeadline)
}

// failing opens a breaker, and returns when its next probe is due.
func failing(t *testing.T, b *breaker, now time.Time) time.Time {
	t.Helper()
	for i := range breakAfter {
		require.True(t, b.admits(now, aDeadline))
		now = fails(b, now)
		require.Equal(t, i == breakAfter-1, b.open())
	}
	return now.Add(aDeadline)
}

func TestBreakerOpensAfterASpanOfFailures(t *testing.T) {
	var b breaker
	for range 100 {
		fails(&b, breakerStart)
	}
	require.False(t, b.open(), "all were out in one moment")
	fails(&b, breakerStart.Add(span(aDeadline)-aDeadline-time.Microsecond))
	require.False(t, b.open())
	fails(&b, breakerStart.Add(span(aDeadline)-aDeadline))
	require.True(t, b.open())

	b.succeeded()
	require.False(t, b.open())
	for i := range breakAfter - 1 {
		fails(&b, breakerStart.Add(time.Duration(i)*time.Hour))
		require.False(t, b.open(), "few failures, however long they take")
	}
	b.succeeded()
	failing(t, &b, breakerStart)
}

// From one deadline the probes lie apart twice as far each time, up to 0.9 seconds from
// one to the next.
func TestBreakerProbes(t *testing.T) {
	var b breaker
	due := failing(t, &b, breakerStart)
	for _, pause := range []time.Duration{100, 200, 400, 800, 900, 900} {
		require.False(t, b.admits(due.Add(-time.Microsecond), aDeadline))
		require.True(t, b.admits(due, aDeadline))
		require.False(t, b.admits(due, aDeadline), "one")
		require.False(t, b.admits(due.Add(aDeadline), aDeadline), "it may be on its way")
		fails(&b, due)
		require.True(t, b.open())
		due = due.Add(pause * time.Millisecond)
	}
	require.True(t, b.admits(due, aDeadline))
	b.succeeded()
	require.False(t, b.open())
	failing(t, &b, due) // it takes as many failures as before
}

// However long a call takes, an open breaker holds others back after it.
func TestBreakerPausesAfterALongProbe(t *testing.T) {
	const long = 3 * time.Second
	var b breaker
	now := breakerStart
	for range breakAfter {
		b.note(now)
		b.failed(now, now.Add(long), long)
	}
	now = now.Add(long)
	require.True(t, b.open())
	require.False(t, b.admits(now.Add(probePause-1), long))
	require.True(t, b.admits(now.Add(probePause), long))
}

func TestBreakerUnderAClockThatStepsBack(t *testing.T) {
	var b breaker
	failing(t, &b, breakerStart)
	require.True(t, b.admits(breakerStart.Add(-time.Hour), aDeadline), "not shut for an hour")
}

// A counter is well when none of its parts is known to fail.
func TestACounterIsWellIfAllOfItIs(t *testing.T) {
	var g Guard
	now := breakerStart
	require.True(t, g.Well(now))
	p, terms := &g.parts[3], terms{aDeadline, 8}
	call := func(how comeback) {
		began := now
		for p.breaker.until > now.UnixMicro() {
			now = now.Add(time.Millisecond)
		}
		ticket, outcome, err := p.enter(now, func() time.Time { return now }, Payer, "k", terms)
		require.NoError(t, err)
		require.Equal(t, Answered, outcome)
		now = now.Add(aDeadline)
		p.leave(&ticket, how, terms)
		if how != answered {
			p.judge(&ticket, failure{began: began, ended: now, late: how == late}, terms)
		}
	}
	for range breakAfter - 1 {
		call(lost)
		require.True(t, g.Well(now), "single failures are none")
	}
	call(lost)
	require.False(t, g.Well(now))
	g.parts[4].answers++ // whatever others do
	require.False(t, g.Well(now.Add(59*time.Second)))
	require.False(t, g.Well(now.Add(-59*time.Second)), "a clock that steps back")
	require.True(t, g.Well(now.Add(time.Minute)), "nobody asks it any more")
	call(lost)
	require.False(t, g.Well(now))
	call(answered)
	require.True(t, g.Well(now))
}
