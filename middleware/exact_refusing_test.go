// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// Load that does not end is told of once a minute, with its cause, and in the Stats; and no
// longer when it has ended. It is no outage.
func TestLoadThatDoesNotEndIsTold(t *testing.T) {
	for because, err := range map[string]error{
		"contended": exact.ErrContended,
		"busy":      exact.ErrBusy,
	} {
		for name, leased := range map[string]bool{"a call": false, "a lease": true} {
			t.Run(because+", "+name, func(t *testing.T) {
				c, l, cfg, log := paidRoute()
				cfg.Limits[0].Quota = 1 << 20
				if leased {
					cfg.Concurrency = &middleware.Concurrency{Max: 5}
				}
				m := newLimiter(t, cfg)
				h := m.Handler(new(spy))
				asks := func(status, seconds int) {
					refused := 0
					for range 4 * seconds {
						if send(h).StatusCode == http.StatusServiceUnavailable {
							refused++
						}
						c.advance(250 * time.Millisecond)
					}
					if status == http.StatusOK {
						require.Zero(t, refused)
					} else {
						require.GreaterOrEqual(t, refused, 3*seconds)
					}
				}
				asks(http.StatusOK, 10)
				l.fault = func(_ context.Context, call int) error {
					if call%4 == 0 && because == "busy" { // answered at no time it would be an outage
						return nil
					}
					return fmt.Errorf("%w: the table is throttled", err)
				}
				asks(http.StatusServiceUnavailable, 5)
				require.Empty(t, log.String(), "it may be a crowd")
				require.False(t, m.Stats().Counter.Refusing)
				asks(http.StatusServiceUnavailable, 10)
				require.True(t, m.Stats().Counter.Refusing)
				require.False(t, m.Stats().Counter.Down)
				require.Equal(t, 1, strings.Count(log.String(), "\n"))
				require.Contains(t, log.String(), "code=counter-refuses because="+because+" error=")
				require.Contains(t, log.String(), "the table is throttled")
				asks(http.StatusServiceUnavailable, 120)
				require.Equal(t, 3, strings.Count(log.String(), "code=counter-refuses"), "one a minute")
				require.Equal(t, 3, strings.Count(log.String(), "\n"))
				l.fault = nil
				asks(http.StatusOK, 7)
				require.False(t, m.Stats().Counter.Refusing)
				require.Equal(t, 3, strings.Count(log.String(), "\n"))
			})
		}
	}
}

// A counter that has no room is told of at the first customer whom it refuses, and once a minute, with
// what it says: others pass, so that it need never be most of them. It is no outage.
func TestAFullCounterIsTold(t *testing.T) {
	for name, leased := range map[string]bool{"a call": false, "a lease": true} {
		t.Run(name, func(t *testing.T) {
			c, l, cfg, log := paidRoute()
			cfg.Limits[0].Quota = 1 << 20
			if leased {
				cfg.Concurrency = &middleware.Concurrency{Max: 5}
			}
			m := newLimiter(t, cfg)
			h := m.Handler(new(spy))
			for second := range 130 {
				for n := range 10 {
					l.fault = nil
					if n == 9 && second > 5 {
						l.fault = func(context.Context, int) error { return fmt.Errorf("%w: no room on the disk", exact.ErrFull) }
					}
					resp := send(h)
					require.Equal(t, l.fault != nil, resp.StatusCode == http.StatusServiceUnavailable)
				}
				require.Equal(t, (second+54)/60, strings.Count(log.String(), "\n"), second)
				c.advance(time.Second)
			}
			for line := range strings.Lines(log.String()) {
				require.Contains(t, line, "code=counter-full")
				require.Contains(t, line, "no room on the disk")
			}
			require.False(t, m.Stats().Counter.Refusing)
			require.False(t, m.Stats().Counter.Down)
		})
	}
}

// Where little is asked it takes longer, and is told all the same.
func TestLoadThatMeetsFewRequestsIsTold(t *testing.T) {
	c, l, cfg, log := paidRoute()
	m := newLimiter(t, cfg)
	h := m.Handler(new(spy))
	l.fault = func(context.Context, int) error { return exact.ErrContended }
	for range 30 {
		require.Equal(t, http.StatusServiceUnavailable, send(h).StatusCode)
		c.advance(50 * time.Second)
	}
	require.NotEmpty(t, log.String())
	require.True(t, m.Stats().Counter.Refusing)
	c.advance(time.Minute)
	require.False(t, m.Stats().Counter.Refusing, "of a counter that nobody asks nothing is known")
}

// A crowd for five seconds, however large, a third of calls that meet load all the time, and
// an outage are not told of.
func TestLoadThatIsNotTold(t *testing.T) {
	for name, fails := range map[string]func(second, n int) error{
		"a crowd": func(second, n int) error {
			if second%20 >= 5 || n == 0 {
				return nil
			}
			return exact.ErrBusy
		},
		"every third": func(_, n int) error {
			if n%3 == 0 {
				return exact.ErrBusy
			}
			return nil
		},
		"half": func(_, n int) error {
			if n%2 == 0 {
				return exact.ErrContended
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, l, cfg, log := paidRoute()
			cfg.Limits[0].Quota = 1 << 20
			m := newLimiter(t, cfg)
			h := m.Handler(new(spy))
			for second := range 60 {
				requests := 6
				if fails(second, 1) != nil {
					requests = 60
				}
				for n := range requests {
					l.fault = func(context.Context, int) error { return fails(second, n) }
					send(h)
				}
				c.advance(time.Second)
				require.False(t, m.Stats().Counter.Refusing)
			}
			require.Empty(t, log.String())
		})
	}
	t.Run("an outage", func(t *testing.T) {
		c, l, cfg, log := paidRoute()
		h := limitedOnly(t, cfg)
		l.fault = onFire
		for range 100 {
			send(h)
			c.advance(250 * time.Millisecond)
		}
		require.Contains(t, log.String(), "code=counter-down")
		require.NotContains(t, log.String(), "counter-refuses")
	})
}
