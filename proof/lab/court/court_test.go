// SPDX-License-Identifier: Apache-2.0

package court

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuotas(t *testing.T) {
	q := NewQuotas(40)
	early := q.Begin()
	require.Equal(t, Spread{40, 40}, early())
	done := q.Change(60)
	within := q.Begin()
	require.Equal(t, Spread{Least: 40, Most: 60}, early(), "some instances have it, and some have not")
	done()
	require.Equal(t, Spread{Least: 40, Most: 60}, within())
	require.Equal(t, Spread{Least: 60, Most: 60}, q.Begin()())
	require.Equal(t, Spread{Least: 40, Most: 60}, early())
	q.Change(50)()
	require.Equal(t, Spread{Least: 50, Most: 50}, q.Begin()())
}

func TestOutage(t *testing.T) {
	var o Outage
	before := o.Now()
	require.True(t, o.Stood(before))
	o.Change()
	during := o.Now()
	require.False(t, o.Stood(before), "it fell meanwhile")
	require.False(t, o.Stood(during))
	o.Change()
	require.False(t, o.Stood(before))
	require.False(t, o.Stood(during), "it did not stand at the beginning")
	require.True(t, o.Stood(o.Now()))
}

// On whichever day a run begins, Redis' own clock does not come near the end of a window of the exact routes.
func TestExactWindowsDoNotEnd(t *testing.T) {
	const day = 24 * 60 * 60
	year := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	for now := year; now.Year() < 2060; now = now.Add(day * time.Second) {
		seconds := int64(ExactWindow(now) / time.Second)
		require.LessOrEqual(t, seconds, int64(365*day), now)
		require.Zero(t, seconds%60, now)
		gone := now.Unix() % seconds
		require.Greater(t, min(gone, seconds-gone), int64(170*day), now)
	}
}
