// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// What the operator of a service is told, and what is kept out of his log.

func TestWhyNobodyCanBeTold(t *testing.T) {
	proxies := netip.MustParsePrefix("192.0.2.0/24")
	forwarded := mustIdentity(middleware.ForwardedFor(proxies))
	down := errors.New("db down for customer 4711")
	for name, tt := range map[string]struct {
		identity     middleware.IdentityFunc
		options      []option
		because, err string
	}{
		"no address":  {nil, []option{from("@")}, "the connection has no address, as on a Unix socket; set Config.Identity", "no address"},
		"bad hop":     {forwarded, []option{from("192.0.2.1"), with("X-Forwarded-For", "banana")}, "X-Forwarded-For from a trusted proxy holds something that is not an address", "X-Forwarded-For"},
		"nobody":      {only(middleware.Identity{}), nil, "returned nobody", ""},
		"a failure":   {func(*http.Request) (middleware.Identity, error) { return middleware.Identity{}, down }, nil, "Decision.IdentityErr", "4711"},
		"and a value": {func(*http.Request) (middleware.Identity, error) { return middleware.APIKey("x"), down }, nil, "Decision.IdentityErr", "4711"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := contact(new(clock))
			cfg.Identity = tt.identity
			h := newSite(t, cfg)
			require.Equal(t, http.StatusForbidden, send(h, tt.options...).StatusCode)
			require.Contains(t, h.Log.Lines()[0], tt.because)
			require.NotContains(t, h.Log.Lines()[0], "4711", "it may be the client's")
			require.NotContains(t, h.Log.Lines()[0], "banana")
			if tt.err == "" {
				require.NoError(t, h.Decisions.Last().IdentityErr)
			} else {
				require.ErrorContains(t, h.Decisions.Last().IdentityErr, tt.err)
			}
		})
	}
}

// A proxy that is not named makes one client of all: the commonest mistake there is.
func TestAForgottenProxyIsLogged(t *testing.T) {
	forwarded := mustIdentity(middleware.ForwardedFor(netip.MustParsePrefix("192.0.2.0/24")))
	for name, identity := range map[string]middleware.IdentityFunc{"peer": nil, "forwarded": forwarded} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := contact(now)
			cfg.Identity = identity
			h := newSite(t, cfg)
			send(h, from("198.51.100.1"), with("X-Forwarded-For", "203.0.113.9"))
			require.Empty(t, h.Log.Lines(), "a stranger may write what he likes")
			now.Advance(time.Second)
			send(h, from("127.0.0.1"))
			require.Empty(t, h.Log.Lines())
			for _, private := range []string{"127.0.0.1", "10.1.2.3", "fd00::1"} {
				now.Advance(time.Second)
				send(h, from(private), with("X-Forwarded-For", "203.0.113.9"))
			}
			require.Contains(t, h.Log.Only(t), "all of its clients share one quota")
			require.NotContains(t, h.Log.Lines()[0], "203.0.113")
		})
	}
}

func TestUnknownTierIsLoggedByName(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Identity = func(*http.Request) (middleware.Identity, error) {
		id := middleware.APIKey("x")
		id.Tier = "Paid" + strings.Repeat("!", 1000)
		return id, nil
	}
	h := newSite(t, cfg)
	send(h)
	require.Contains(t, h.Log.Lines()[0], "Paid!")
	require.Less(t, len(h.Log.Lines()[0]), 400)
}

// A counter that fails now and then is told of from the first failure, and never more
// often than once a minute for each kind of line.
func TestCounterFailureIsLoggedAndDoesNotFillTheDisk(t *testing.T) {
	c, l, cfg := paidRoute()
	cfg.Limits[0].Quota = 1 << 20
	h := newSite(t, cfg)
	l.Fault = onFire
	require.Equal(t, http.StatusServiceUnavailable, send(h).StatusCode)
	require.Equal(t, 1, h.Log.Count("failed a request"))
	require.Contains(t, h.Log.String(), errEngine.Error())
	for range 25 { // in less than a minute
		l.Fault = onFire
		breaks(h, c)
		l.Fault = nil
		c.Advance(time.Second)
		send(h)
	}
	require.Equal(t, 1, h.Log.Count("failed a request"))
	require.Equal(t, 1, h.Log.Count("does not answer"))
	require.Zero(t, h.Log.Count("answers again"), "it comes and goes")
	c.Advance(10 * time.Second)
	send(h)
	require.Equal(t, 1, h.Log.Count("answers again"), "as often as it was said that it does not")
	c.Advance(time.Minute)
	l.Fault = onFire
	breaks(h, c)
	require.Equal(t, 2, h.Log.Count("does not answer"))
}

func TestMisuseIsToldAtOnce(t *testing.T) {
	require.Panics(t, func() { new(middleware.Middleware).Handler(new(spy)) })
	require.Panics(t, func() { new(middleware.Middleware).Endpoints() })
	require.Panics(t, func() { middleware.ValidatedKey(nil, middleware.PeerAddress) })

	cfg := contact(new(clock))
	cfg.Identity = middleware.ValidatedKey(only(middleware.Identity{}), nil)
	h, _ := limited(t, cfg)
	resp := requireStatus(t, http.StatusUnauthorized, send(h))
	require.Equal(t, "Bearer", resp.Header.Get("WWW-Authenticate"))

	_, err := middleware.ForwardedFor(netip.Prefix{}, netip.MustParsePrefix("0.0.0.0/0"))
	require.Equal(t, []string{"trusted[0]", "trusted[1]"}, problems(t, err))
}
