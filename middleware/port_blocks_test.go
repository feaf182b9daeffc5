// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// blocked is a site whose addresses are cut into blocks of ports.
func blocked(c *clock) middleware.Config {
	cfg := challenging(c, middleware.Newcomers)
	cfg.PortBlocks, cfg.Challenge.Crowd = true, 8
	return cfg
}

// connected is what net/http says of a connection.
func connected(remote string) option { return func(r *http.Request) { r.RemoteAddr = remote } }

// buys has a client buy three tallies.
func buys(t *testing.T, h http.Handler, remote string) {
	t.Helper()
	for range 3 {
		bought(t, h, connected(remote))
	}
}

// priceFor is the work of the challenge that a client is given.
func priceFor(t *testing.T, h http.Handler, remote string) uint64 {
	t.Helper()
	return challengeIn(t, fetched(h, connected(remote))).Work
}

// A client that buys makes tallies dear in its own block of ports, and hardly in others. The others pay what an
// address without blocks would cost. (The work of a challenge is a multiple of eight: 24 is 22.)
func TestPortBlocks(t *testing.T) {
	for name, test := range map[string]struct{ buyer, client, price int }{
		"itself":                         {20_000, 20_000, 128},
		"the first port of its block":    {20_000, 16_384, 128},
		"the last port of its block":     {20_000, 20_479, 128},
		"the block below":                {20_000, 16_383, 24},
		"the block above":                {20_000, 20_480, 24},
		"the first block":                {1, 4095, 128},
		"another than the first":         {1, 4096, 24},
		"the last block":                 {65_535, 61_440, 128},
		"another than the last":          {65_535, 61_439, 24},
		"the first, from the last block": {65_535, 1, 24},
	} {
		t.Run(name, func(t *testing.T) {
			h := newSite(t, blocked(new(clock)))
			buys(t, h, fmt.Sprintf("203.0.113.9:%d", test.buyer))
			require.EqualValues(t, test.price, priceFor(t, h, fmt.Sprintf("203.0.113.9:%d", test.client)))
			require.EqualValues(t, 16, priceFor(t, h, fmt.Sprintf("203.0.113.10:%d", test.buyer)), "another address")
		})
	}
}

// Without a port that is the client's there are no blocks, and IPv6 clients have none.
func TestNoPortBlocks(t *testing.T) {
	for name, test := range map[string]struct {
		buyer, client string
		price         int
		lines         int
	}{
		"no port":              {"203.0.113.9", "203.0.113.9", 24, 1},
		"port 0":               {"203.0.113.9:0", "203.0.113.9:0", 24, 1},
		"IPv6":                 {"[2001:db8::1]:20000", "[2001:db8::1]:20000", 24, 0},
		"IPv6, another port":   {"[2001:db8::1]:20000", "[2001:db8::1]:40000", 24, 0},
		"IPv4 in IPv6":         {"[::ffff:203.0.113.9]:20000", "203.0.113.9:20000", 128, 0},
		"IPv4 by a translator": {"[64:ff9b::203.0.113.9]:20000", "203.0.113.9:20000", 128, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newSite(t, blocked(new(clock)))
			buys(t, h, test.buyer)
			require.EqualValues(t, test.price, priceFor(t, h, test.client))
			require.Len(t, h.Log.Lines(), test.lines)
		})
	}
	t.Run("without the option", func(t *testing.T) {
		cfg := blocked(new(clock))
		cfg.PortBlocks = false
		h := newSite(t, cfg)
		buys(t, h, "203.0.113.9:20000")
		require.EqualValues(t, 24, priceFor(t, h, "203.0.113.9:20000"))
		require.EqualValues(t, 24, priceFor(t, h, "203.0.113.9:40000"))
	})
}

// A proof that was made for the price of one block is paid for in the block it is shown from.
func TestProofIsPaidForInItsBlock(t *testing.T) {
	h := newSite(t, blocked(new(clock)))
	cheap := challengeIn(t, fetched(h, connected("203.0.113.9:40000")))
	buys(t, h, "203.0.113.9:20000")
	proof := solve(t, cheap)
	require.Equal(t, http.StatusForbidden, redeemed(h, proof, connected("203.0.113.9:20000")).StatusCode)
	require.Equal(t, http.StatusOK, redeemed(h, proof, connected("203.0.113.9:40000")).StatusCode)
}

// A proxyProtocol listener takes address and port of each connection from the first line of the
// PROXY protocol, version 1.
type proxyProtocol struct{ net.Listener }

type proxiedConn struct {
	net.Conn
	rest   io.Reader
	client net.Addr
}

func (c *proxiedConn) Read(b []byte) (int, error) { return c.rest.Read(b) }
func (c *proxiedConn) RemoteAddr() net.Addr       { return c.client }

func (l proxyProtocol) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	var source, destination string
	var port, own uint16
	rest := bufio.NewReader(conn)
	if _, err = fmt.Fscanf(rest, "PROXY TCP4 %s %s %d %d\r\n", &source, &destination, &port, &own); err != nil {
		return nil, err
	}
	client := net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(source), port))
	return &proxiedConn{conn, rest, client}, nil
}

// On a real server, behind a proxy that says who is asking by the PROXY protocol.
func TestPortBlocksOverTheProxyProtocol(t *testing.T) {
	server := httptest.NewUnstartedServer(newSite(t, blocked(new(clock))))
	server.Listener = proxyProtocol{server.Listener}
	server.Start()
	t.Cleanup(server.Close)
	ask := func(port int, method, path string, change ...option) *http.Response {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		r, err := http.NewRequest(method, server.URL+path, http.NoBody)
		require.NoError(t, err)
		for _, o := range change {
			o(r)
		}
		_, err = fmt.Fprintf(conn, "PROXY TCP4 203.0.113.9 192.0.2.1 %d 443\r\n", port)
		require.NoError(t, err)
		require.NoError(t, r.Write(conn))
		resp, err := http.ReadResponse(bufio.NewReader(conn), r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp
	}
	price := func(port int) uint64 { return challengeIn(t, ask(port, "GET", "/tally/challenge")).Work }
	for i := range 3 {
		port := 50_000 + i // each connection has another of the block
		proof := solve(t, challengeIn(t, ask(port, "GET", "/tally/challenge")))
		require.Equal(t, http.StatusOK, ask(port, "POST", "/tally/redeem", proving(proof)).StatusCode)
	}
	require.EqualValues(t, 128, price(50_100))
	require.EqualValues(t, 24, price(30_000))
}
