// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/storeless"
)

const (
	proxy  = "10.0.0.1:4711"
	direct = "203.0.113.9:4711"
)

// A forwarding is a request by way of proxies, and who is told from it; "" is nobody.
type forwarding struct {
	name, remote string
	lines        []string
	want         string
}

func testForwarding(t *testing.T, header string, build func(...netip.Prefix) (middleware.IdentityFunc, error), tests []forwarding) {
	identify, err := build(proxies...)
	require.NoError(t, err)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := peerRequest(test.remote)
			r.Header[header] = test.lines
			id, err := identify(r)
			if test.want == "" {
				require.Error(t, err)
				require.True(t, id.IsZero())
				return
			}
			require.NoError(t, err)
			require.Equal(t, wire(address(test.want)), wire(id))
		})
	}
}

func TestForwardedFor(t *testing.T) {
	testForwarding(t, "X-Forwarded-For", middleware.ForwardedFor, []forwarding{
		{"T8 spoofed by a client that connects directly", direct, []string{"198.51.100.7"}, "203.0.113.9"},
		{"T8 spoofed from the left", proxy, []string{"198.51.100.7, 203.0.113.5"}, "203.0.113.5"},
		{"T8 spoofed with a trusted address", proxy, []string{"10.9.9.9, 203.0.113.5"}, "203.0.113.5"},
		{"T8 spoofed by a line of its own", proxy, []string{"198.51.100.7", "203.0.113.5"}, "203.0.113.5"},
		{"T8 garbage to the left of the client", proxy, []string{"<script>,, 203.0.113.5"}, "203.0.113.5"},
		{"T8 spoofed loopback", proxy, []string{"127.0.0.1, 203.0.113.5"}, "203.0.113.5"},
		{"two proxies", proxy, []string{"203.0.113.5, 10.0.0.2"}, "203.0.113.5"},
		{"two proxies, a line each", proxy, []string{"203.0.113.5", "10.0.0.2"}, "203.0.113.5"},
		{"an IPv6 proxy", "[2001:db8:feed::1]:80", []string{"203.0.113.5"}, "203.0.113.5"},
		{"a v4-mapped proxy", "[::ffff:10.0.0.1]:80", []string{"203.0.113.5"}, "203.0.113.5"},
		{"a zoned proxy", "[2001:db8:feed::1%eth0]:80", []string{"203.0.113.5"}, "203.0.113.5"},
		{"a v4-mapped proxy in the list", proxy, []string{"203.0.113.5, ::ffff:10.0.0.2"}, "203.0.113.5"},
		{"with a port", proxy, []string{"203.0.113.5:31337"}, "203.0.113.5"},
		{"IPv6", proxy, []string{"2001:db8::5"}, "2001:db8::5"},
		{"IPv6 in brackets", proxy, []string{"[2001:db8::5]"}, "2001:db8::5"},
		{"IPv6 with a port", proxy, []string{"[2001:db8::5]:80"}, "2001:db8::5"},
		{"IPv6 with a zone", proxy, []string{"fe80::5%eth0"}, "fe80::5"},
		{"v4-mapped", proxy, []string{"::ffff:203.0.113.5"}, "203.0.113.5"},
		{"v4-mapped with a port", proxy, []string{"[::ffff:203.0.113.5]:80"}, "203.0.113.5"},
		{"tabs and spaces", proxy, []string{"198.51.100.7,\t 203.0.113.5 \t"}, "203.0.113.5"},
		{"all trusted", proxy, []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.1"},
		{"missing", proxy, nil, "10.0.0.1"},
		{"empty", proxy, []string{""}, "10.0.0.1"},
		{"empty at the end", proxy, []string{"203.0.113.5,"}, ""},
		{"empty, a line", proxy, []string{"203.0.113.5", ""}, ""},
		{"empty, in the middle", proxy, []string{"203.0.113.5, ,\t, 10.0.0.2"}, ""},
		{"empty, 15 of them", proxy, []string{"203.0.113.5" + strings.Repeat(",", 15)}, ""},
		{"empty, without end", proxy, []string{"203.0.113.5" + strings.Repeat(",", 16)}, ""},
		{"T8 spoofed by way of a proxy that appends nothing to a comma", proxy, []string{"6.6.6.6, "}, ""},
		{"empty left of the client", proxy, []string{", ,203.0.113.5"}, "203.0.113.5"},
		{"empty lines alone", proxy, []string{"", " ,"}, "10.0.0.1"},
		{"empty, lines without end", proxy, append([]string{"203.0.113.5"}, make([]string, 16)...), ""},
		{"garbage at the end", proxy, []string{"203.0.113.5, unknown"}, ""},
		{"garbage behind a proxy", proxy, []string{"203.0.113.5, x, 10.0.0.2"}, ""},
		{"a host name", proxy, []string{"client.example"}, ""},
		{"an address in octal", proxy, []string{"0313.0.113.5"}, ""},
		{"a number", proxy, []string{"3405803781"}, ""},
		{"a prefix", proxy, []string{"203.0.113.0/24"}, ""},
		{"an IPv4 address in brackets", proxy, []string{"[203.0.113.5]"}, ""},
		{"16 proxies", proxy, []string{"203.0.113.5" + strings.Repeat(", 10.0.0.2", 15)}, "203.0.113.5"},
		{"a chain without end", proxy, []string{"203.0.113.5" + strings.Repeat(", 10.0.0.2", 16)}, ""},
		{"600 kB", proxy, []string{strings.Repeat("9", 600<<10)}, ""},
		{"600 kB before the client", proxy, []string{strings.Repeat("9", 600<<10) + ",203.0.113.5"}, "203.0.113.5"},
		{"600 kB that end like an address", proxy, []string{strings.Repeat("9", 600<<10) + strings.Repeat(" ", 150) + "203.0.113.5"}, ""},
		{"peer unknown", "@", []string{"203.0.113.5"}, ""},
	})
}

// forwarded believes the header of RFC 7239.
func forwarded(trusted ...netip.Prefix) (middleware.IdentityFunc, error) {
	return middleware.AddressFromHeader("Forwarded", trusted...)
}

func TestForwarded(t *testing.T) {
	testForwarding(t, "Forwarded", forwarded, []forwarding{
		{"T8 spoofed by a client that connects directly", direct, []string{"for=198.51.100.7"}, "203.0.113.9"},
		{"T8 spoofed from the left", proxy, []string{"for=198.51.100.7, for=203.0.113.5"}, "203.0.113.5"},
		{"T8 spoofed through a quoted host", proxy, []string{`for=203.0.113.5;host="x,for=198.51.100.7;y=";proto=https`}, ""},
		{"T8 spoofed through a quoted host, closed", proxy, []string{`for=203.0.113.5;host="x,for=198.51.100.7"`}, ""},
		{"T8 spoofed through an escaped quote", proxy, []string{`for=203.0.113.5;host="x\",for=198.51.100.7;y=\"z"`}, ""},
		{"T8 spoofed through a quoted semicolon", proxy, []string{`for=203.0.113.5;host="x;for=198.51.100.7"`}, ""},
		{"T8 an open quote to the left", proxy, []string{`for="198.51.100.7, for=203.0.113.5`}, "203.0.113.5"},
		{"IPv4", proxy, []string{"for=203.0.113.5"}, "203.0.113.5"},
		{"quoted", proxy, []string{`for="203.0.113.5"`}, "203.0.113.5"},
		{"quoted with a port", proxy, []string{`for="203.0.113.5:80"`}, "203.0.113.5"},
		{"IPv6", proxy, []string{`for="[2001:db8::5]"`}, "2001:db8::5"},
		{"IPv6 with a port", proxy, []string{`For="[2001:db8::5]:4711"`}, "2001:db8::5"},
		{"other parameters", proxy, []string{`proto=https;by=10.0.0.1;for=203.0.113.5;host="example.com"`}, "203.0.113.5"},
		{"empty pairs, which are legal", proxy, []string{`;for=203.0.113.5;;`}, "203.0.113.5"},
		{"two proxies", proxy, []string{"for=203.0.113.5, for=10.0.0.2;by=10.0.0.1"}, "203.0.113.5"},
		{"missing", proxy, nil, "10.0.0.1"},
		{"empty at the end", proxy, []string{"for=203.0.113.5, "}, ""},
		{"empty, a line", proxy, []string{"for=203.0.113.5", ""}, ""},
		{"empty, without end", proxy, []string{"for=203.0.113.5" + strings.Repeat(",", 16)}, ""},
		{"a long host", proxy, []string{"for=203.0.113.5;host=" + strings.Repeat("h", 255) + ";proto=https"}, "203.0.113.5"},
		{"a host without end", proxy, []string{"for=203.0.113.5;host=" + strings.Repeat("h", 600<<10)}, ""},
		{"pairs alone, which are empty", proxy, []string{"for=203.0.113.5, ;;"}, ""},
		{"IPv6 without brackets", proxy, []string{`for="2001:db8::5"`}, ""},
		{"IPv6 without quotes", proxy, []string{"for=[2001:db8::5]"}, ""},
		{"a port without quotes", proxy, []string{"for=203.0.113.5:80"}, ""},
		{"unknown", proxy, []string{"for=unknown"}, ""},
		{"obfuscated", proxy, []string{`for="_gazonk"`}, ""},
		{"said twice", proxy, []string{"for=203.0.113.5;for=198.51.100.7"}, ""},
		{"not said", proxy, []string{"proto=https"}, ""},
		{"no pair", proxy, []string{"203.0.113.5"}, ""},
		{"no value", proxy, []string{"for="}, ""},
		{"a quote too few", proxy, []string{`for="203.0.113.5`}, ""},
		{"a quote inside", proxy, []string{`for=203.0.113.5;host="a"b"`}, ""},
		{"an escape, which no address needs", proxy, []string{`for=203.0.113.5;host="a\b"`}, ""},
		{"a quote only", proxy, []string{`for="`}, ""},
		{"a malformed pair beside it", proxy, []string{`for=203.0.113.5;(x)=1`}, ""},
	})
}

// Whoever tries a proxy on its own machine is a trusted address by the field too: it is there, and the line
// does not say that it is missing.
func TestForwardedForOfTrustedAddressesIsLogged(t *testing.T) {
	for lines, says := range map[string]string{
		"10.0.0.7":              "X-Forwarded-For names trusted proxies alone",
		"10.0.0.7, 10.0.0.2":    "X-Forwarded-For names trusted proxies alone",
		", ,":                   "no client address in X-Forwarded-For from a trusted proxy",
		"203.0.113.5, 10.0.0.7": "",
	} {
		cfg := contact(new(clock))
		cfg.Identity = mustIdentity(middleware.ForwardedFor(proxies...))
		h := newSite(t, cfg)
		require.Equal(t, http.StatusOK, send(h, from("10.0.0.1"), with("X-Forwarded-For", lines)).StatusCode)
		if says == "" {
			require.Empty(t, h.Log.Lines())
			continue
		}
		require.Equal(t, []string{"proxy-silent"}, codesIn(h.Log.Lines()), lines)
		require.Contains(t, h.Log.Lines()[0], says)
	}
}

func TestTrustedNetworks(t *testing.T) {
	for name, trusted := range map[string][]netip.Prefix{
		"trusted":    nil,
		"trusted[0]": {{}},
		"trusted[1]": {netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("0.0.0.0/0")},
		"trusted[2]": {proxies[0], proxies[1], netip.MustParsePrefix("::ffff:10.0.0.0/104")},
	} {
		for _, build := range []func(...netip.Prefix) (middleware.IdentityFunc, error){middleware.ForwardedFor, forwarded} {
			identify, err := build(trusted...)
			require.Nil(t, identify)
			var problem *storeless.ConfigError
			require.True(t, errors.As(err, &problem))
			require.Equal(t, name, problem.Field)
		}
	}
	t.Run("are copied", func(t *testing.T) {
		mine := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		identify := mustIdentity(middleware.ForwardedFor(mine...))
		mine[0] = netip.MustParsePrefix("203.0.113.0/24")
		id, err := identify(peerRequest(direct, "X-Forwarded-For", "198.51.100.7"))
		require.NoError(t, err)
		require.Equal(t, address("203.0.113.9"), id)
	})
}
