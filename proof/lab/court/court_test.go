// SPDX-License-Identifier: Apache-2.0

package court

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
