// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

func fromHeader(trusted ...netip.Prefix) (middleware.IdentityFunc, error) {
	return middleware.AddressFromHeader("fly-client-ip", trusted...)
}

func TestAddressFromHeader(t *testing.T) {
	testForwarding(t, "Fly-Client-Ip", fromHeader, []forwarding{
		{"T8 spoofed by a client that connects directly", direct, []string{"198.51.100.7"}, "203.0.113.9"},
		{"T8 spoofed by a line before it", proxy, []string{"198.51.100.7", "203.0.113.5"}, ""},
		{"T8 spoofed by a line behind it", proxy, []string{"203.0.113.5", "198.51.100.7"}, ""},
		{"T8 spoofed by a list", proxy, []string{"198.51.100.7, 203.0.113.5"}, ""},
		{"T8 spoofed by an empty line", proxy, []string{"203.0.113.5", ""}, ""},
		{"IPv4", proxy, []string{"203.0.113.5"}, "203.0.113.5"},
		{"IPv6", proxy, []string{"2001:db8::5"}, "2001:db8::5"},
		{"an IPv6 proxy", "[2001:db8:feed::1]:80", []string{"203.0.113.5"}, "203.0.113.5"},
		{"a v4-mapped proxy", "[::ffff:10.0.0.1]:80", []string{"203.0.113.5"}, "203.0.113.5"},
		{"v4-mapped", proxy, []string{"::ffff:203.0.113.5"}, "203.0.113.5"},
		{"with a port", proxy, []string{"203.0.113.5:4711"}, "203.0.113.5"},
		{"IPv6 with a port", proxy, []string{"[2001:db8::5]:4711"}, "2001:db8::5"},
		{"tabs and spaces", proxy, []string{" \t203.0.113.5\t "}, "203.0.113.5"},
		{"a client in the proxies' network", proxy, []string{"10.1.2.3"}, "10.1.2.3"},
		{"missing", proxy, nil, "10.0.0.1"},
		{"empty", proxy, []string{""}, ""},
		{"blank", proxy, []string{" "}, ""},
		{"garbage", proxy, []string{"<script>"}, ""},
		{"a host name", proxy, []string{"client.example"}, ""},
		{"an element of RFC 7239", proxy, []string{"for=203.0.113.5"}, ""},
		{"a prefix", proxy, []string{"203.0.113.0/24"}, ""},
		{"a comma alone", proxy, []string{"203.0.113.5,"}, ""},
		{"600 kB", proxy, []string{strings.Repeat("9", 600<<10)}, ""},
		{"600 kB of space", proxy, []string{strings.Repeat(" ", 600<<10) + "203.0.113.5"}, ""},
		{"peer unknown", "@", []string{"203.0.113.5"}, ""},
		{"peer empty", "", []string{"203.0.113.5"}, ""},
	})
}

// Without an address of the connection the field alone says who asks; with one, it is as
// if the name had no Insecure in it.
func TestInsecureNoPeer(t *testing.T) {
	for name, test := range map[string]struct {
		header  string
		trusted []netip.Prefix
		rows    []forwarding
	}{
		"a list": {"X-Forwarded-For", nil, []forwarding{
			{"no peer", "", []string{"203.0.113.5"}, "203.0.113.5"},
			{"a Unix socket", "@", []string{"203.0.113.5"}, "203.0.113.5"},
			{"T8 spoofed from the left", "", []string{"198.51.100.7, 203.0.113.5"}, "203.0.113.5"},
			{"T8 spoofed by a line of its own", "", []string{"198.51.100.7", "203.0.113.5"}, "203.0.113.5"},
			{"T8 spoofed past the proxy", direct, []string{"198.51.100.7"}, "203.0.113.9"},
			{"T8 spoofed from loopback", "127.0.0.1:4711", []string{"198.51.100.7"}, "127.0.0.1"},
			{"missing", "", nil, ""},
			{"empty", "", []string{""}, ""},
			{"garbage", "", []string{"203.0.113.5, unknown"}, ""},
			{"what is no address of a connection", "pipe", []string{"203.0.113.5"}, ""},
			{"a socket's path", "/run/app.sock", []string{"203.0.113.5"}, ""},
			{"a host's name", "client.example:80", []string{"203.0.113.5"}, ""},
			{"two addresses", "192.0.2.1:4711, 198.51.100.1:80", []string{"203.0.113.5"}, ""},
		}},
		"a list, and proxies before": {"x-forwarded-for", proxies, []forwarding{
			{"no peer", "", []string{"203.0.113.5, 10.0.0.2"}, "203.0.113.5"},
			{"none but proxies", "", []string{"10.0.0.3, 10.0.0.2"}, ""},
			{"a trusted peer", proxy, []string{"203.0.113.5"}, "203.0.113.5"},
			{"a trusted peer, missing", proxy, nil, "10.0.0.1"},
			{"T8 spoofed past the proxy", direct, []string{"198.51.100.7"}, "203.0.113.9"},
		}},
		"RFC 7239": {"forwarded", nil, []forwarding{
			{"no peer", "", []string{"for=198.51.100.7, for=203.0.113.5"}, "203.0.113.5"},
			{"another's grammar", "", []string{"203.0.113.5"}, ""},
		}},
		"one address": {"X-Real-IP", nil, []forwarding{
			{"no peer", "", []string{"203.0.113.5"}, "203.0.113.5"},
			{"a list", "", []string{"198.51.100.7, 203.0.113.5"}, ""},
			{"two lines", "", []string{"198.51.100.7", "203.0.113.5"}, ""},
			{"missing", "", nil, ""},
			{"empty", "", []string{""}, ""},
			{"T8 spoofed past the proxy", direct, []string{"198.51.100.7"}, "203.0.113.9"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			build := func(...netip.Prefix) (middleware.IdentityFunc, error) {
				return middleware.InsecureNoPeer(test.header, test.trusted...)
			}
			testForwarding(t, http.CanonicalHeaderKey(test.header), build, test.rows)
		})
	}
}

func TestHeadersThatNameNobody(t *testing.T) {
	all := []netip.Prefix{netip.MustParsePrefix("::/0")}
	for name, test := range map[string]struct {
		build   func(string, ...netip.Prefix) (middleware.IdentityFunc, error)
		header  string
		trusted []netip.Prefix
		want    []string
	}{
		"no name":                     {middleware.AddressFromHeader, "", proxies, []string{"header"}},
		"no token":                    {middleware.AddressFromHeader, "X Real", proxies, []string{"header"}},
		"a line's end":                {middleware.AddressFromHeader, "X-Real-IP\r\n", proxies, []string{"header"}},
		"no proxies":                  {middleware.AddressFromHeader, "X-Real-IP", nil, []string{"trusted"}},
		"everything":                  {middleware.AddressFromHeader, ":", all, []string{"header", "trusted[0]"}},
		"no peer, no name":            {middleware.InsecureNoPeer, "", nil, []string{"header"}},
		"no peer, the whole Internet": {middleware.InsecureNoPeer, "X-Real-IP", []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}, []string{"trusted[0]"}},
	} {
		t.Run(name, func(t *testing.T) {
			identify, err := test.build(test.header, test.trusted...)
			require.Nil(t, identify)
			require.Equal(t, test.want, problems(t, err))
		})
	}
}

// An adapter for Lambda behind an ALB: no address, and the balancer's field. The default
// refuses everybody; ForwardedFor too.
func TestClientsOfAnAdapterWithoutAddresses(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Identity = mustIdentity(middleware.InsecureNoPeer("X-Forwarded-For"))
	h := newSite(t, cfg)
	balanced := func(list string) option {
		return func(r *http.Request) { r.RemoteAddr = ""; r.Header.Set("X-Forwarded-For", list) }
	}
	require.Equal(t, 5, admitted(h, 8, balanced("203.0.113.1")))
	require.Zero(t, admitted(h, 8, balanced("198.51.100.1, 203.0.113.1")), "spoofed")
	require.Equal(t, 5, admitted(h, 8, balanced("203.0.113.2")))
	require.Empty(t, h.Log.Lines())
	require.Zero(t, admitted(h, 8, func(r *http.Request) { r.RemoteAddr = "" }))
	require.Contains(t, h.Log.Only(t), "no client address in X-Forwarded-For, and the connection has none")
}

func TestUnixSocketBehindAProxy(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Identity = mustIdentity(middleware.InsecureNoPeer("X-Real-IP"))
	client := onSocket(t, newSite(t, cfg))
	for _, addr := range []string{"203.0.113.1", "203.0.113.2"} {
		require.Equal(t, 5, admittedOver(t, client, "http://unix", 6, with("X-Real-IP", addr)))
	}
}

// A proxy that sets no field passes on what some clients write: those pose as anyone.
// The others, and the difference, are seen.
func TestAFieldThatComesAtTimesIsLogged(t *testing.T) {
	for name, build := range map[string]func(...netip.Prefix) (middleware.IdentityFunc, error){
		"X-Forwarded-For": middleware.ForwardedFor, "Fly-Client-Ip": fromHeader,
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := contact(now)
			cfg.Identity = mustIdentity(build(proxies...))
			h := newSite(t, cfg)
			require.Equal(t, 5, admitted(h, 10, from("10.0.0.1")), "the proxy is the client, until it sends the field")
			require.Contains(t, h.Log.Only(t), "no client address in "+name)
			now.Advance(time.Minute)
			send(h, from("10.0.0.1"), with(name, "203.0.113.5"))
			send(h, from("203.0.113.5"))
			require.Len(t, h.Log.Lines(), 1, "a peer that is no proxy need not send it")
			for range 3 {
				send(h, from("10.0.0.1"))
			}
			require.Len(t, h.Log.Lines(), 2)
			require.Contains(t, h.Log.Lines()[1], name+" comes from trusted proxies with some requests and not with others")
			require.NotContains(t, h.Log.Lines()[1], "203.0.113")
			now.Advance(time.Minute)
			send(h, from("10.0.0.1"), with(name, "203.0.113.5"))
			require.Len(t, h.Log.Lines(), 2, "nothing amiss with this one")
		})
	}
}

// A platform's own header counts if the platform's proxy sends it.
func ExampleAddressFromHeader() {
	identity, err := middleware.AddressFromHeader("Fly-Client-IP", netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("fdaa::/16"))
	if err != nil {
		panic(err)
	}
	for _, r := range []*http.Request{
		peerRequest("172.16.4.2:4711", "Fly-Client-IP", "203.0.113.9"),
		peerRequest("198.51.100.1:4711", "Fly-Client-IP", "203.0.113.9"),
	} {
		id, err := identity(r)
		fmt.Println(id.Addr(), err)
	}
	// Output:
	// 203.0.113.9 <nil>
	// 198.51.100.1 <nil>
}
