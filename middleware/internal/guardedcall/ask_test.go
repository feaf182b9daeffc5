// SPDX-License-Identifier: Apache-2.0

package guardedcall

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
