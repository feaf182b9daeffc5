// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// A new tally meets another's tag in its set with a chance below 16/2³². In a
// memory whose sets are all full that is 0.0007 in all these looks, and more than
// two hits come once in 10¹⁰ runs; with tags of 16 bits there would be 49.
func TestNobodyIsMistaken(t *testing.T) {
	const live, looks, quota = 10_000, 200_000, 5
	p := compile(t, storeless.Limit{Quota: quota, Window: minute})
	m := limiter.NewMemory(1000, 1)
	for n := range live {
		take(m, p, midnight, numbered(m, 'l', n), 1)
	}
	newcomers, _ := m.Inherited()
	require.Positive(t, newcomers, "the sets are full")
	hits := 0
	for n := range looks {
		// Who is known begins with nothing, and has something all the same.
		if v := take(m, p, midnight, numbered(m, 'n', n), 0); v.Inherited == 0 && v.Limits[0].Remaining != quota {
			hits++
		}
	}
	require.LessOrEqual(t, hits, 2)
}
