// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// What a recorder cannot show: addresses and header lines as net/http hands them over.

func TestPeerAddressOverTheNetwork(t *testing.T) {
	h, spy := limited(t, contact(new(clock)))
	server := serve(t, h)
	for i, addr := range []string{"127.0.0.2", "127.0.0.3", "127.1.2.3"} {
		client, passed := clientAt(t, addr), 0
		client.Jar = nil
		for i := range 8 {
			client.CloseIdleConnections() // a port of its own for each request is no identity of its own
			passed += admittedOver(t, client, server.URL, 1, with("X-Forwarded-For", fmt.Sprint(addr, i), "X-Real-Ip", fmt.Sprint(addr, 9-i)))
		}
		require.Equal(t, 5, passed, addr)
		require.EqualValues(t, 5*(i+1), spy.Calls.Load())
	}
}

func TestIPv6PeerOverTheNetwork(t *testing.T) {
	listener, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6 loopback: ", err)
	}
	cfg := contact(new(clock))
	h := newSite(t, cfg)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: h}}
	server.Start()
	defer server.Close()
	client := server.Client()
	for range 6 {
		over(t, client, server.URL)
	}
	require.Equal(t, middleware.OverLimit, h.Decisions.Last().Reason)
	require.Equal(t, 5, admitted(h, 9, from("::2:0:0:0:1")), "another /64")
	require.Zero(t, admitted(h, 9, from("::1:2:3:4")), "::1 and this are in one")
}

func TestForwardedForOverTheNetwork(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Identity = mustIdentity(middleware.ForwardedFor(netip.MustParsePrefix("127.0.0.2/32")))
	server := serve(t, newSite(t, cfg))
	trusted, stranger := clientAt(t, "127.0.0.2"), clientAt(t, "127.0.0.3")
	trusted.Jar, stranger.Jar = nil, nil
	passes := func(client *http.Client, pairs ...string) int {
		return admittedOver(t, client, server.URL, 8, with(pairs...))
	}
	require.Equal(t, 5, passes(trusted, "X-Forwarded-For", "198.51.100.1"))
	require.Equal(t, 0, passes(trusted, "x-FORWARDED-for", "8.8.8.8", "X-Forwarded-For", "198.51.100.1"), "two lines are one list")
	require.Equal(t, 5, passes(trusted, "X-Forwarded-For", "198.51.100.1, 198.51.100.2"))
	require.Equal(t, 5, passes(stranger, "X-Forwarded-For", "198.51.100.3"))
	require.Equal(t, 0, passes(stranger, "X-Forwarded-For", "198.51.100.4"), "a stranger is himself")
}

func TestUnixSocket(t *testing.T) {
	cfg := contact(new(clock))
	log := logTo(&cfg)
	m := newLimiter(t, cfg)
	client := onSocket(t, m.Handler(new(spy)))
	for range 3 {
		require.Equal(t, http.StatusForbidden, over(t, client, "http://unix").StatusCode)
	}
	require.Contains(t, log.Only(t), "Config.Identity")
	cfg.Identity = only(middleware.Principal("the only one"))
	require.NoError(t, m.Reconfigure(cfg))
	require.Equal(t, 5, admittedOver(t, client, "http://unix", 6))
}
