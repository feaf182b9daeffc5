// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
)

// A pass has a quota on each instance, wherever its challenge came from and its proof was shown: (N+C)·L for a
// client that shows its first token, and L for one that echoes. Config.Instances changes nothing.
func TestAPassIsWholeOnEachInstance(t *testing.T) {
	const n, quota = 10, 100
	for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers} {
		cfg := handlers.Challenging(new(handlers.Clock), mode)
		cfg.Limits = []middleware.Limit{{Quota: quota, Window: time.Minute}}
		cfg.Instances = n
		s := handlers.Sites(t, n, cfg)
		if mode == middleware.WhenExhausted {
			for _, h := range s { // what everybody shares is not what is looked at
				handlers.Admitted(h, quota)
			}
		}
		proof := handlers.Solve(t, handlers.ChallengeIn(t, handlers.Fetched(s[3])))
		first := handlers.TokenIn(handlers.Redeemed(s[7], proof))
		s = append(s, handlers.NewSite(t, cfg)) // C = 1
		passed := 0
		for i, h := range s {
			if i < n {
				require.Equal(t, first, handlers.TokenIn(handlers.Redeemed(h, proof)), "one proof is one tally, everywhere")
			}
			if i == n && mode == middleware.WhenExhausted {
				handlers.Admitted(h, quota)
			}
			passed += handlers.Admitted(h, 150, handlers.Showing(first))
		}
		require.Equal(t, (n+1)*quota, passed, mode)
	}
	cfg := handlers.Challenging(new(handlers.Clock), middleware.Newcomers)
	cfg.Limits = []middleware.Limit{{Quota: quota, Window: time.Minute}}
	s := handlers.Sites(t, n, cfg)
	tok := handlers.Bought(t, s[0])
	for i := range quota {
		tok = handlers.TokenIn(handlers.RequireStatus(t, http.StatusOK, handlers.Send(s[i%n], handlers.Showing(tok)), i))
	}
	handlers.ChallengeIn(t, handlers.RequireStatus(t, http.StatusTooManyRequests, handlers.Send(s[1], handlers.Showing(tok))))
}
