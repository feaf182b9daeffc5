// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// away is a table of keys that does not answer.
func away(*http.Request) (middleware.Identity, error) {
	return middleware.Identity{}, fmt.Errorf("%w: the table of keys: %w", middleware.ErrIdentityUnavailable, syscall.ECONNREFUSED)
}

// Who cannot be told now comes again: it is no 403, which says that waiting does not help.
func TestAnIdentityThatIsUnavailable(t *testing.T) {
	for name, identity := range map[string]middleware.IdentityFunc{
		"a function":      away,
		"a validated key": middleware.ValidatedKey(away, middleware.PeerAddress),
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.WhenExhausted)
			cfg.Identity = identity
			log := logTo(&cfg)
			s := newSite(t, cfg)
			for _, path := range []string{"/", "/tally/challenge"} {
				now.Advance(time.Second)
				resp := requireStatus(t, http.StatusServiceUnavailable, send(s, method(http.MethodGet), func(r *http.Request) { r.URL.Path = path }), path)
				seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
				require.NoError(t, err)
				require.Positive(t, seconds)
				require.Equal(t, "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity", problemIn(t, resp).Type)
				require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
			}
			d := s.Decisions.Last()
			require.Equal(t, middleware.IdentityUnavailable, d.Reason)
			require.Positive(t, d.RetryAfter)
			require.ErrorIs(t, d.IdentityErr, syscall.ECONNREFUSED)
			require.True(t, d.Identity.IsZero())
			require.Equal(t, []string{"identity-unavailable"}, codesIn(log.Lines()), "once a minute")
			require.Contains(t, log.Lines()[0], "the table of keys: connection refused")
		})
	}
	t.Run("in shadow it passes, and is told", func(t *testing.T) {
		cfg := contact(new(clock))
		cfg.Identity, cfg.Shadow = away, true
		log := logTo(&cfg)
		h, _ := limited(t, cfg)
		resp := requireStatus(t, http.StatusOK, send(h))
		require.Empty(t, resp.Header.Get("Retry-After"))
		require.Equal(t, []string{"identity-unavailable"}, codesIn(log.Lines()))
	})
	t.Run("who hangs up while it is looked for raises no alarm", func(t *testing.T) {
		cfg := contact(new(clock))
		cfg.Identity = away
		log := logTo(&cfg)
		h, _ := limited(t, cfg)
		require.Equal(t, http.StatusServiceUnavailable, send(h, func(r *http.Request) {
			ctx, cancel := context.WithCancel(r.Context())
			cancel()
			*r = *r.WithContext(ctx)
		}).StatusCode)
		require.Empty(t, log.Lines())
	})
	t.Run("a denial is a denial", func(t *testing.T) {
		cfg := contact(new(clock))
		cfg.Identity = func(*http.Request) (middleware.Identity, error) {
			return middleware.Identity{}, errors.Join(middleware.ErrIdentityUnavailable, &middleware.Denial{Status: http.StatusUnauthorized})
		}
		h, _ := limited(t, cfg)
		require.Equal(t, http.StatusUnauthorized, send(h).StatusCode)
	})
}

// Of any other error the log has the kind alone: its text may have the key in it that was shown.
func TestTheKindOfAnIdentityErrorIsLogged(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Identity = func(*http.Request) (middleware.Identity, error) {
		return middleware.Identity{}, fmt.Errorf("no customer has %q: %w", "sk-live-4711", syscall.ECONNREFUSED)
	}
	h := newSite(t, cfg)
	require.Equal(t, http.StatusForbidden, send(h).StatusCode)
	require.Equal(t, []string{"identity-unknown"}, codesIn(h.Log.Lines()))
	require.Contains(t, h.Log.Lines()[0], "the identity function failed with a syscall.Errno")
	require.NotContains(t, h.Log.Lines()[0], "sk-live")
}
