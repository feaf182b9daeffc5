// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// fought runs an attack for a number of frames.
func fought(t *testing.T, p plan, frames int) *arena {
	t.Helper()
	a := kit.Must(newArena(p))(t)
	t.Cleanup(a.close)
	for range frames {
		a.advance()
	}
	require.NoError(t, a.trouble)
	return a
}

func TestAttackReachesItsBoundAndNoMore(t *testing.T) {
	for _, p := range []plan{
		{Instances: 1, Quota: 3}, {Instances: 3, Quota: 5}, {Instances: 3, Quota: 5, Work: true},
		{Instances: 10, Quota: 100, Work: true}, {Instances: 10, Quota: 3, Work: true},
		{Instances: 3, Quota: 5, Peers: true}, {Instances: 10, Quota: 100, Work: true, Peers: true},
	} {
		t.Run(fmt.Sprintf("%+v", p), func(t *testing.T) {
			a := fought(t, p, attackFrames)
			require.Empty(t, a.broken())
			for _, c := range a.clients {
				if c.Honest {
					require.Zero(t, c.Refused, c.Name)
					require.Positive(t, c.Most, c.Name)
					continue
				}
				if !a.apart() && !strings.HasPrefix(c.Name, "replays") && !strings.HasPrefix(c.Name, "forks") { // a token that is shown to instances says what was used of each
					require.GreaterOrEqual(t, c.Most*5, c.Bound*4, "%s: %d of %d", c.Name, c.Most, c.Bound)
				}
				require.Positive(t, c.Refused, c.Name)
			}
		})
	}
}

// The plot can fail: where instances remember nothing, a client that throws its token away is not limited.
func TestAttackOnInstancesWithoutMemory(t *testing.T) {
	a := fought(t, plan{Instances: 3, Quota: 5, memoryless: true}, windowFrames)
	require.Contains(t, a.broken(), "throws its token away")
	require.Contains(t, a.picture().Broken, "throws its token away")
}

func TestPlansAreBounded(t *testing.T) {
	for _, p := range []plan{{Instances: 0, Quota: 5}, {Instances: 11, Quota: 5}, {Instances: 3, Quota: 2}, {Instances: 3, Quota: 101}} {
		_, err := newArena(p)
		require.Error(t, err)
	}
}
