// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// Nobody carries the token of a name, so each of two instances tries five wrong passwords of
// docs/api.md; with a counter five pass together. Right ones are free on both.
func TestWrongPasswordsOfANameOnTwoInstances(t *testing.T) {
	ann := middleware.Principal("ann")
	for _, test := range []struct {
		name  string
		on    func(cfg *middleware.Config)
		right func(t *testing.T, try middleware.Answer)
		wrong func(try middleware.Answer)
		tried int
	}{
		{
			name:  "by outcome",
			on:    func(*middleware.Config) {},
			right: func(_ *testing.T, try middleware.Answer) { try.Charge(false) },
			wrong: func(try middleware.Answer) { try.Charge(true) },
			tried: 10,
		},
		{
			name: "by an exact counter",
			on: func(cfg *middleware.Config) {
				cfg.Limits, cfg.ByOutcome = cfg.Limits[1:], nil
				cfg.Exact = &middleware.Exact{Counter: exact.NewMemory(0, cfg.Now), Outage: middleware.FailClosed}
			},
			right: func(t *testing.T, try middleware.Answer) { require.NoError(t, try.Settle(0)) },
			wrong: func(middleware.Answer) {},
			tried: 5,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := login(new(clock))
			cfg.ByOutcome = &middleware.ByOutcome{Limits: []string{"failures"}}
			cfg.Limits[1].Window = 15 * time.Minute
			test.on(&cfg)
			instances := [2]*middleware.Middleware{newLimiter(t, cfg), newLimiter(t, cfg)}
			for i := range 20 {
				try := check(t, instances[i%2], ann, 1)
				require.True(t, try.Allowed, "a right password, after %d others", i)
				test.right(t, try)
			}
			tried := 0
			for i := range 20 {
				if try := check(t, instances[i%2], ann, 1); try.Allowed {
					test.wrong(try)
					tried++
				}
			}
			require.Equal(t, test.tried, tried)
			for _, m := range instances {
				require.False(t, check(t, m, ann, 1).Allowed)
				require.True(t, check(t, m, middleware.Principal("bob"), 1).Allowed, "another name")
			}
		})
	}
}
