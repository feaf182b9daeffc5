// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/players"
	"github.com/tallystick/tallystick/proof/truth"
)

// A pass has a quota on each instance, wherever its challenge came from and its proof was shown: (N+C)·L for a
// client that shows its first token, and L for one that echoes. Config.Instances changes nothing.
func TestAPassIsWholeOnEachInstance(t *testing.T) {
	const n, quota = 10, 100
	start := func(mode middleware.Mode) (*fleet.Moved, *players.Attacker) {
		cfg := handlers.Challenging(nil, mode)
		cfg.Limits = []middleware.Limit{{Quota: quota, Window: time.Minute}}
		f := fleet.New(n, cfg)
		require.EqualValues(t, n, f.Site.Instances)
		return f, &players.Attacker{Fleet: f, From: []string{fleet.V4(0)}}
	}
	i := truth.Instances{N: n, C: 1}
	for mode, bound := range map[middleware.Mode]int64{middleware.WhenExhausted: i.Adds(quota, 1), middleware.Newcomers: i.Buys(quota, 1)} {
		f, a := start(mode)
		a.Farm(1, 1)
		f.Scale(n + 1)
		a.Farm(1, 1) // it has one already
		require.Equal(t, bound, a.Gained().Admitted, "whole on each, in mode %d", mode)
	}
	_, a := start(middleware.Newcomers)
	h := players.Honest{Attacker: a, Token: a.Buy(3)}
	for range quota + 1 {
		h.Want(a.Next)
	}
	require.EqualValues(t, quota, h.Admitted, "a client that echoes has L of it")
}
