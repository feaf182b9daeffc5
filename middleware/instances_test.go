// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

func TestEchoingClientOnThreeInstances(t *testing.T) {
	now := new(clock)
	h := inTurn(fleet(t, 3, contactForm(now)))
	tok := spend(t, h, 5)

	refused := requireStatus(t, http.StatusTooManyRequests, send(h, showing(tok)), "the 6th")

	wait, err := strconv.Atoi(refused.Header.Get("Retry-After"))
	require.NoError(t, err)
	now.Advance(time.Duration(wait) * time.Second)
	require.Equal(t, http.StatusOK, send(h, showing(tok)).StatusCode, "after its Retry-After")
}

func TestClientsThatDoNotEcho(t *testing.T) {
	t.Run("5 on one instance", func(t *testing.T) {
		require.Equal(t, 5, admitted(inTurn(fleet(t, 1, contactForm(new(clock)))), 60))
	})
	t.Run("at most 15 on three", func(t *testing.T) {
		require.Equal(t, 15, admitted(inTurn(fleet(t, 3, contactForm(new(clock)))), 60))
	})
	t.Run("replaying the first token for ever, on one instance", func(t *testing.T) {
		h := inTurn(fleet(t, 1, contactForm(new(clock))))
		first := spend(t, h, 1)
		require.Equal(t, 4, admitted(h, 60, showing(first)))
	})
	t.Run("replaying the first token for ever, on three", func(t *testing.T) {
		h := inTurn(fleet(t, 3, contactForm(new(clock))))
		first := spend(t, h, 1)
		require.LessOrEqual(t, admitted(h, 60, showing(first)), 14)
	})
}

// A browser opens six connections, all with the cookies of one jar.
func TestSixParallelClientsWithOneCookieJar(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Limits[0].Quota = 50
	h, spy := limited(t, cfg)
	url, client := browser(t, h)

	var passed atomic.Int64
	inParallel(6, func(int) {
		for range 12 {
			resp, err := client.Post(url, "text/plain", http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				passed.Add(1)
			}
		}
	})
	require.EqualValues(t, 50, passed.Load(), "of 72")
	require.EqualValues(t, 50, spy.Calls.Load())
	jar := client.Jar.Cookies(mustURL(t, url))
	require.Len(t, jar, 1)
	require.Equal(t, "__Host-tallystick-contact", jar[0].Name)
}

func TestRestartInTheMiddleOfAWindow(t *testing.T) {
	now := new(clock)
	before, _ := limited(t, contact(now))
	tok := spend(t, before, 4)
	now.Advance(30 * time.Second)

	t.Run("who echoes keeps the tally", func(t *testing.T) {
		after, _ := limited(t, contact(now))
		require.Equal(t, 1, admitted(after, 10, showing(tok)))
	})
	t.Run("who does not has a quota for each start", func(t *testing.T) {
		after, _ := limited(t, contact(now))
		require.Equal(t, 5, admitted(after, 10))
	})
}

// The second middleware of a policy that is in use writes a line, and nothing else does.
func TestSecondMiddlewareIsTold(t *testing.T) {
	type made = func(*testing.T, middleware.Config)
	// each makes a middleware for each change, and has it live.
	each := func(changes ...func(*middleware.Config)) made {
		return func(t *testing.T, cfg middleware.Config) {
			for _, change := range changes {
				one := cfg
				change(&one)
				m := newLimiter(t, one)
				t.Cleanup(func() { runtime.KeepAlive(m) })
			}
		}
	}
	same := func(*middleware.Config) {}
	told := []string{"policy-made-twice"}
	for name, tt := range map[string]struct {
		first, then made
		want        []string
	}{
		"a second":                    {each(same), each(same), told},
		"a second with other secrets": {each(same), each(func(c *middleware.Config) { c.Secrets = [][]byte{secret("b")} }), told},
		"a third too":                 {each(same), each(same, same), told},
		"another policy":              {each(same), each(func(c *middleware.Config) { c.Policy = "signup" }), nil},
		"another logger":              {each(same), each(func(c *middleware.Config) { c.Logger = c.Logger.With("instance", 2) }), nil},
		"one that could not be made": {each(same), func(t *testing.T, cfg middleware.Config) {
			cfg.Limits[0].Quota = 0
			_, err := middleware.New(cfg)
			require.Error(t, err)
		}, nil},
		"in place of one that was dropped": {func(t *testing.T, cfg middleware.Config) {
			newLimiter(t, cfg)
			runtime.GC()
		}, each(same), nil},
		"a new configuration": {each(), func(t *testing.T, cfg middleware.Config) {
			m := newLimiter(t, cfg)
			require.NoError(t, m.Reconfigure(cfg))
			require.NoError(t, m.Validate(cfg))
		}, nil},
		"many at once": {each(), func(_ *testing.T, cfg middleware.Config) {
			var made [16]*middleware.Middleware
			inParallel(len(made), func(i int) { made[i], _ = middleware.New(cfg) })
			runtime.KeepAlive(&made)
		}, told},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := contact(new(clock))
			log := logTo(&cfg)
			tt.first(t, cfg)
			tt.then(t, cfg)
			require.Equal(t, tt.want, codesIn(log.Lines()))
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
