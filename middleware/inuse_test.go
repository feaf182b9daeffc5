// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// Two middlewares of one policy and secret are two instances, though of one process: N counts them.
func TestTwoMiddlewaresAreTwoInstances(t *testing.T) {
	cfg := contact(new(clock))
	log := logTo(&cfg)
	require.Equal(t, 2*5, admitted(inTurn(fleet(t, 2, cfg)), 60))
	require.Equal(t, []string{"policy-made-twice"}, codesIn(log.lines()))
}

// The second middleware of a policy that is in use writes a line, and nothing else does.
func TestSecondMiddlewareIsTold(t *testing.T) {
	const told = "policy-made-twice"
	another := func(t *testing.T, cfg middleware.Config, change func(*middleware.Config)) {
		if change != nil {
			change(&cfg)
		}
		m := newLimiter(t, cfg)
		t.Cleanup(func() { runtime.KeepAlive(m) })
	}
	for name, tt := range map[string]struct {
		first, then func(*testing.T, middleware.Config)
		want        []string
	}{
		"a second": {then: func(t *testing.T, cfg middleware.Config) { another(t, cfg, nil) }, want: []string{told}},
		"a second with other secrets": {then: func(t *testing.T, cfg middleware.Config) {
			another(t, cfg, func(c *middleware.Config) { c.Secrets = [][]byte{secret("b")} })
		}, want: []string{told}},
		"a third too": {then: func(t *testing.T, cfg middleware.Config) {
			another(t, cfg, nil)
			another(t, cfg, nil)
		}, want: []string{told}},
		"another policy": {then: func(t *testing.T, cfg middleware.Config) {
			another(t, cfg, func(c *middleware.Config) { c.Policy = "signup" })
		}},
		"another logger": {then: func(t *testing.T, cfg middleware.Config) {
			another(t, cfg, func(c *middleware.Config) { c.Logger = c.Logger.With("instance", 2) })
		}},
		"one that could not be made": {then: func(t *testing.T, cfg middleware.Config) {
			cfg.Limits[0].Quota = 0
			_, err := middleware.New(cfg)
			require.Error(t, err)
		}},
		"in place of one that was dropped": {
			first: func(t *testing.T, cfg middleware.Config) {
				newLimiter(t, cfg)
				runtime.GC()
			},
			then: func(t *testing.T, cfg middleware.Config) { another(t, cfg, nil) },
		},
		"a new configuration": {
			first: func(t *testing.T, cfg middleware.Config) {
				m := newLimiter(t, cfg)
				require.NoError(t, m.Reconfigure(cfg))
				require.NoError(t, m.Validate(cfg))
			},
			then: func(*testing.T, middleware.Config) {},
		},
		"many at once": {
			first: func(*testing.T, middleware.Config) {},
			then: func(_ *testing.T, cfg middleware.Config) {
				var made [16]*middleware.Middleware
				inParallel(len(made), func(i int) { made[i], _ = middleware.New(cfg) })
				runtime.KeepAlive(&made)
			},
			want: []string{told},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := contact(new(clock))
			log := logTo(&cfg)
			if tt.first == nil {
				tt.first = func(t *testing.T, cfg middleware.Config) { another(t, cfg, nil) }
			}
			tt.first(t, cfg)
			tt.then(t, cfg)
			require.Equal(t, tt.want, codesIn(log.lines()))
		})
	}
}

// To know of a middleware keeps nothing of it.
func TestNothingIsKeptOfAMiddleware(t *testing.T) {
	cfg := contact(new(clock))
	logTo(&cfg)
	m := newLimiter(t, cfg)
	require.True(t, middleware.Remembered(cfg.Policy, cfg.Logger))
	runtime.KeepAlive(m)
	m = nil
	require.Eventually(t, func() bool {
		runtime.GC()
		return !middleware.Remembered(cfg.Policy, cfg.Logger)
	}, 2*time.Minute, 10*time.Millisecond)

	cfg.Logger = slog.New(slog.DiscardHandler)
	m = newLimiter(t, cfg)
	require.False(t, middleware.Remembered(cfg.Policy, cfg.Logger), "nobody would read of it")
	runtime.KeepAlive(m)
}
