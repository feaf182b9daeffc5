// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// A pass has a quota on each instance, wherever its challenge came from and its proof was shown: (N+C)·L for a
// client that shows its first token, and L for one that echoes. Config.Instances changes nothing.
func TestAPassIsWholeOnEachInstance(t *testing.T) {
	const n, quota = 10, 100
	for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers} {
		cfg := challenging(new(clock), mode)
		cfg.Limits = []middleware.Limit{{Quota: quota, Window: time.Minute}}
		cfg.Instances = n
		s := sites(t, n, cfg)
		if mode == middleware.WhenExhausted {
			for _, h := range s { // what everybody shares is not what is looked at
				admitted(h, quota)
			}
		}
		proof := solve(t, challengeIn(t, fetched(s[3])))
		first := tokenIn(redeemed(s[7], proof))
		s = append(s, newSite(t, cfg)) // C = 1
		passed := 0
		for i, h := range s {
			if i < n {
				require.Equal(t, first, tokenIn(redeemed(h, proof)), "one proof is one tally, everywhere")
			}
			if i == n && mode == middleware.WhenExhausted {
				admitted(h, quota)
			}
			passed += admitted(h, 150, showing(first))
		}
		require.Equal(t, (n+1)*quota, passed, mode)
	}
	cfg := challenging(new(clock), middleware.Newcomers)
	cfg.Limits = []middleware.Limit{{Quota: quota, Window: time.Minute}}
	s := sites(t, n, cfg)
	tok := bought(t, s[0])
	for i := range quota {
		tok = tokenIn(requireStatus(t, http.StatusOK, send(s[i%n], showing(tok)), i))
	}
	challengeIn(t, requireStatus(t, http.StatusTooManyRequests, send(s[1], showing(tok))))
}
