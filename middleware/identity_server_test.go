// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// What a recorder cannot show: addresses and header lines as net/http hands them
// over.

func TestPeerAddressOverTheNetwork(t *testing.T) {
	h, spy := limited(t, contact(new(clock)))
	server := serve(t, h)
	for i, addr := range []string{"127.0.0.2", "127.0.0.3", "127.1.2.3"} {
		client, passed := clientAt(t, addr), 0
		client.Jar = nil
		for range 8 {
			// A port of its own for each request is no identity of its own.
			client.CloseIdleConnections()
			if over(t, client, server.URL, with("X-Forwarded-For", addr+"9", "X-Real-Ip", addr+"8")).StatusCode == http.StatusOK {
				passed++
			}
		}
		require.Equal(t, 5, passed, addr)
		require.EqualValues(t, 5*(i+1), spy.calls.Load())
	}
}

func TestIPv6PeerOverTheNetwork(t *testing.T) {
	listener, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6 loopback: ", err)
	}
	cfg := contact(new(clock))
	decisions := record(&cfg)
	h, _ := limited(t, cfg)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: h}}
	server.Start()
	defer server.Close()
	client := server.Client()
	for range 6 {
		over(t, client, server.URL)
	}
	require.Equal(t, middleware.OverLimit, decisions.last().Reason)
	require.Equal(t, 5, admitted(h, 9, from("::2:0:0:0:1")), "another /64")
	require.Zero(t, admitted(h, 9, from("::1:2:3:4")), "::1 and this are in one")
}

func TestForwardedForOverTheNetwork(t *testing.T) {
	identify, err := middleware.ForwardedFor(netip.MustParsePrefix("127.0.0.2/32"))
	require.NoError(t, err)
	cfg := contact(new(clock))
	cfg.Identity = identify
	h, _ := limited(t, cfg)
	server := serve(t, h)
	trusted, stranger := clientAt(t, "127.0.0.2"), clientAt(t, "127.0.0.3")
	passes := func(client *http.Client, pairs ...string) (n int) {
		client.Jar = nil
		for range 8 {
			if over(t, client, server.URL, with(pairs...)).StatusCode == http.StatusOK {
				n++
			}
		}
		return n
	}
	require.Equal(t, 5, passes(trusted, "X-Forwarded-For", "198.51.100.1"))
	require.Equal(t, 0, passes(trusted, "x-FORWARDED-for", "8.8.8.8", "X-Forwarded-For", "198.51.100.1"), "two lines are one list")
	require.Equal(t, 5, passes(trusted, "X-Forwarded-For", "198.51.100.1, 198.51.100.2"))
	require.Equal(t, 5, passes(stranger, "X-Forwarded-For", "198.51.100.3"))
	require.Equal(t, 0, passes(stranger, "X-Forwarded-For", "198.51.100.4"), "a stranger is himself")
}

// On a Unix socket nobody has an address: nobody is served until the program
// says who is asking.
func TestUnixSocket(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	cfg := contact(new(clock))
	log := logTo(&cfg)
	m := newLimiter(t, cfg)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: m.Handler(new(spy))}}
	server.Start()
	defer server.Close()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", listener.Addr().String())
	}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for range 3 {
		require.Equal(t, http.StatusForbidden, over(t, client, "http://unix").StatusCode)
	}
	require.Len(t, log.lines(), 1)
	require.Contains(t, log.lines()[0], "Config.Identity")

	cfg.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.Principal("the only one"), nil }
	require.NoError(t, m.Reconfigure(cfg))
	for i := range 6 {
		want := []int{http.StatusOK, http.StatusTooManyRequests}[boolToInt(i == 5)]
		require.Equal(t, want, over(t, client, "http://unix").StatusCode)
	}
}
