// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

const (
	proxy  = "10.0.0.1:4711"
	direct = "203.0.113.9:4711"
)

// A forwarding is a request by way of proxies, and the client that it names; "" is none.
type forwarding struct {
	name, remote string
	lines        []string
	want         string
}

func testForwarding(t *testing.T, header string, build func(...netip.Prefix) (middleware.IdentityFunc, error), tests []forwarding) {
	identify := kit.Must(build(proxies...))(t)
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
			require.Equal(t, handlers.Wire(address(test.want)), handlers.Wire(id))
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

// An operator that tries a proxy on its own machine has a trusted address in the field too: it is there,
// and the line does not say that it is missing.
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
		id := kit.Must(identify(peerRequest(direct, "X-Forwarded-For", "198.51.100.7")))(t)
		require.Equal(t, address("203.0.113.9"), id)
	})
}

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
		{"an IPv6 proxy", "[2001:db8:feed::1]:80", []string{"203.0.113.5"}, "203.0.113.5"},
		{"a v4-mapped proxy", "[::ffff:10.0.0.1]:80", []string{"203.0.113.5"}, "203.0.113.5"},
		{"tabs and spaces", proxy, []string{" \t203.0.113.5\t "}, "203.0.113.5"},
		{"a client in the proxies' network", proxy, []string{"10.1.2.3"}, "10.1.2.3"},
		{"missing", proxy, nil, "10.0.0.1"},
		{"empty", proxy, []string{""}, ""},
		{"blank", proxy, []string{" "}, ""},
		{"garbage", proxy, []string{"<script>"}, ""},
		{"a host name", proxy, []string{"client.example"}, ""},
		{"an element of RFC 7239", proxy, []string{"for=203.0.113.5"}, ""},
		{"a comma alone", proxy, []string{"203.0.113.5,"}, ""},
		{"600 kB", proxy, []string{strings.Repeat("9", 600<<10)}, ""},
		{"600 kB of space", proxy, []string{strings.Repeat(" ", 600<<10) + "203.0.113.5"}, ""},
		{"peer unknown", "@", []string{"203.0.113.5"}, ""},
		{"peer empty", "", []string{"203.0.113.5"}, ""},
	})
}

// Without an address of the connection the field alone names the client; with one, it is as if the
// name had no Insecure in it.
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
// refuses all; ForwardedFor too.
func TestClientsOfAnAdapterWithoutAddresses(t *testing.T) {
	adapter := func(r *http.Request) { r.RemoteAddr = "" }
	balanced := func(list string) option { return both(adapter, with("X-Forwarded-For", list)) }
	play(t, []scenario{{"the field names them", limiting(func(cfg *middleware.Config) {
		cfg.Identity = mustIdentity(middleware.InsecureNoPeer("X-Forwarded-For"))
	}), []step{
		{as: balanced("203.0.113.1"), times: 8, passes: 5}, {as: balanced("198.51.100.1, 203.0.113.1"), times: 8}, // spoofed
		{as: balanced("203.0.113.2"), times: 8, passes: 5, see: all{told()}},
		{as: adapter, times: 8, see: all{func(s *scene) {
			require.Contains(s, s.site.Log.Only(s), "no client address in X-Forwarded-For, and the connection has none")
		}}},
	}}})
}

// A proxy that sets no field passes on what some clients write: those pose as anyone.
// The others, and the difference, are seen.
func TestAFieldThatComesAtTimesIsLogged(t *testing.T) {
	logs := func(n int, last string) func(*scene) {
		return func(s *scene) {
			require.Len(s, s.site.Log.Lines(), n)
			require.Contains(s, s.site.Log.Lines()[n-1], last)
			require.NotContains(s, s.site.Log.Lines()[n-1], "203.0.113")
		}
	}
	for name, build := range map[string]func(...netip.Prefix) (middleware.IdentityFunc, error){
		"X-Forwarded-For": middleware.ForwardedFor, "Fly-Client-Ip": fromHeader,
	} {
		peer, missing := from("10.0.0.1"), "no client address in "+name
		names, mixed := both(peer, with(name, "203.0.113.5")), name+" comes from trusted proxies with some requests and not with others"
		play(t, []scenario{{name, limiting(func(cfg *middleware.Config) { cfg.Identity = mustIdentity(build(proxies...)) }), []step{
			{as: peer, times: 10, passes: 5, see: all{logs(1, missing)}},                                                           // the proxy is the client, until it sends the field
			{after: time.Minute, as: names, want: 200}, {as: from("203.0.113.5"), see: all{logs(1, missing)}, times: 1, passes: 1}, // a peer that is no proxy need not send it
			{as: peer, times: 3, want: 200, see: all{logs(2, mixed)}},
			{after: time.Minute, as: names, want: 200, see: all{logs(2, mixed)}}, // nothing amiss with this one
		}}})
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

// A structured item is one member of a RateLimit or RateLimit-Policy field.
type item struct {
	name   string
	params map[string]int64
}

// structured parses a field by RFC 9651: a List of Strings with Integer parameters, and nothing else.
func structured(t testing.TB, lines []string, permitted ...string) (all []item) {
	t.Helper()
	list, err := httpsfv.UnmarshalList(lines)
	require.NoError(t, err, lines)
	for _, member := range list {
		parsed, ok := member.(httpsfv.Item)
		require.True(t, ok)
		name, ok := parsed.Value.(string)
		require.True(t, ok, "a String, not a Token as in older drafts")
		it := item{name, map[string]int64{}}
		for _, key := range parsed.Params.Names() {
			require.Contains(t, permitted, key)
			value, _ := parsed.Params.Get(key)
			number, ok := value.(int64)
			require.True(t, ok)
			require.GreaterOrEqual(t, number, int64(0))
			it.params[key] = number
		}
		all = append(all, it)
	}
	return all
}

// requireFields checks the fields of a response, open and with tokens, against the draft and against each other.
func requireFields(t testing.TB, resp *http.Response, limits int) {
	t.Helper()
	policies := structured(t, resp.Header.Values("RateLimit-Policy"), "q", "w")
	standing := structured(t, resp.Header.Values("RateLimit"), "r", "t")
	require.Len(t, policies, limits)
	require.Len(t, standing, limits)
	wait := int64(0)
	if resp.StatusCode == http.StatusTooManyRequests {
		wait = kit.Must(strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 64))(t)
		require.GreaterOrEqual(t, wait, int64(1))
	} else {
		require.Empty(t, resp.Header.Values("Retry-After"))
	}
	for i, policy := range policies {
		require.Equal(t, policy.name, standing[i].name)
		require.Contains(t, policy.params, "q")
		require.GreaterOrEqual(t, policy.params["w"], int64(1))
		require.Contains(t, standing[i].params, "r")
		require.LessOrEqual(t, standing[i].params["r"], policy.params["q"])
		reset, said := standing[i].params["t"]
		require.True(t, !said || reset >= 1)
		if wait > 0 && said {
			require.GreaterOrEqual(t, wait, reset, "Retry-After should not lie before t")
			require.LessOrEqual(t, wait, int64(1)<<30)
		}
	}
	if tok := tokenIn(resp); tok != "" {
		parsed := kit.Must(httpsfv.UnmarshalItem([]string{tok}))(t)
		require.Equal(t, httpsfv.Token(tok), parsed.Value, "a bare sf-token, no parameters")
		require.Empty(t, parsed.Params.Names())
		require.LessOrEqual(t, len(tok), 512)
	}
}

func TestFieldsAreStructured(t *testing.T) {
	r, refused := random(1), 0
	for range 15 {
		now := new(clock)
		cfg := contact(now)
		cfg.Cost = costOf
		cfg.Limits = nil
		for i := range 1 + r.IntN(4) {
			limit := middleware.Limit{
				Name:      "limit-" + strconv.Itoa(i),
				Algorithm: storeless.Algorithm(r.IntN(4)),
				Quota:     1 + r.Int64N(20),
				Window:    time.Duration(1+r.IntN(100)) * time.Second,
			}
			if limit.Algorithm == middleware.TokenBucket {
				limit.Burst = 1 + r.Int64N(30)
			}
			cfg.Limits = append(cfg.Limits, limit)
		}
		h, _ := limited(t, cfg)
		tok := ""
		for range 60 {
			now.Advance(time.Duration(r.Int64N(int64(10 * time.Second))))
			resp := send(h, showing(tok), costing(r.Int64N(4)), method([]string{"GET", "POST"}[r.IntN(2)]))
			requireFields(t, resp, len(cfg.Limits))
			if resp.StatusCode == http.StatusTooManyRequests {
				refused++
			}
			if fresh := tokenIn(resp); fresh != "" {
				tok = fresh
			}
		}
	}
	require.Greater(t, refused, 150, "the workload refuses")
}

// What Retry-After says is true: a second before the wait that it was made of,
// the request is refused; at its time it passes.
func TestRetryAfterIsTrue(t *testing.T) {
	for _, limit := range []middleware.Limit{
		{Quota: 7, Window: 100 * time.Second},
		{Quota: 7, Window: 100 * time.Second, Algorithm: middleware.FixedWindow},
		{Quota: 7, Window: 100 * time.Second, Algorithm: middleware.TokenBucket},
		{Quota: 7, Window: 100 * time.Second, Algorithm: storeless.LeakyBucket},
		{Quota: 1, Window: 36 * time.Hour, Algorithm: middleware.TokenBucket},
	} {
		t.Run(limit.Algorithm.String(), func(t *testing.T) {
			now := new(clock)
			h, _ := limited(t, changed(contact(now), func(cfg *middleware.Config) { cfg.Limits = []middleware.Limit{limit} }))
			now.Advance(13*time.Second + 500*time.Millisecond)
			admitted(h, 20)

			least, most := int64(1)<<62, int64(0)
			var wait int64
			for range 1000 {
				resp := send(h)
				retry := kit.Must(strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 64))(t)
				wait = structured(t, resp.Header.Values("RateLimit"), "r", "t")[0].params["t"]
				least, most = min(least, retry), max(most, retry)
			}
			require.Equal(t, wait, least, "without jitter")
			require.Equal(t, wait+min(wait/10, 30), most, "with all of it, in 1000 attempts")

			now.Advance(time.Duration(wait-1) * time.Second)
			require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
			now.Advance(time.Second)
			require.Equal(t, http.StatusOK, send(h).StatusCode)
		})
	}
}

// A gateway is Go's own reverse proxy behind a limiter, on a real server.
func gateway(t *testing.T, limiter *middleware.Middleware, upstream string, h2 bool) *httptest.Server {
	server := httptest.NewUnstartedServer(limiter.Handler(proxyTo(t, upstream)))
	if server.EnableHTTP2 = h2; h2 {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

// hintTwice also has fields of ours in its hints.
func hintTwice(w http.ResponseWriter, r *http.Request) {
	hint(w, r)
	w.Header().Set("RateLimit", `"upstream";r=1`)
	hint(w, r)
	w.Header().Del("RateLimit")
}

func expecting(r *http.Request) {
	r.Header.Set("Expect", "100-continue")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader("hello")), 5
}

// early collects the 1xx responses of a request.
func early(into *[]textproto.MIMEHeader) option {
	return func(r *http.Request) {
		*r = *r.WithContext(httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
				*into = append(*into, h)
				return nil
			},
		}))
	}
}

var ourFields = []string{middleware.TokenHeader, "RateLimit", "RateLimit-Policy", "Set-Cookie", "Cache-Control"}

// A reverse proxy passes on what its upstream sends before the response, from the same header map, and then clears
// it. What was in the map by then would go out with the 1xx, which clients do not keep, and be missing from the
// response: an honest client would then begin anew on every instance.
func TestProxiedResponsesAreWhole(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
			for _, test := range []struct {
				name  string
				early int
				do    []http.HandlerFunc
				send  []option
			}{
				{"plain", 0, nil, nil},
				{"expect", 1, nil, []option{expecting}},
				{"103", 1, []http.HandlerFunc{hint}, nil},
				{"expect and two 103", 3, []http.HandlerFunc{hintTwice}, []option{expecting}},
			} {
				t.Run(proto+" "+m+" "+test.name, func(t *testing.T) {
					server := gateway(t, newLimiter(t, contact(new(clock))), reader(t, test.do...), proto == "HTTP/2.0")
					var hints []textproto.MIMEHeader
					resp := over(t, server.Client(), server.URL, append(test.send, method(m), early(&hints))...)
					require.Equal(t, proto, resp.Proto)
					require.Equal(t, http.StatusOK, resp.StatusCode)
					require.GreaterOrEqual(t, len(hints), test.early)
					for _, h := range hints {
						for _, name := range ourFields {
							require.NotContains(t, h.Values(name), resp.Header.Get(name), name)
						}
						require.NotContains(t, h, "Transfer-Encoding")
					}
					requireWhole(t, resp)
				})
			}
		}
	}
}

// A handler that adds to what it finds, or edits it, changes no other field and no later response.
func TestFieldsAreNotShared(t *testing.T) {
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		h := newLimiter(t, contact(new(clock))).Handler(&spy{Serve: func(w http.ResponseWriter, _ *http.Request) {
			if m == http.MethodPost { // they are there ahead
				for name := range w.Header() {
					w.Header().Add(name, "added")
				}
			}
			w.WriteHeader(http.StatusOK)
			for name := range w.Header() {
				w.Header()[name][0] = "edited"
			}
		}})
		for i := range 3 {
			resp := send(h, method(m))
			for name, want := range map[string]string{"RateLimit-Policy": `"contact";q=5;w=60`, "RateLimit": fmt.Sprintf(`"contact";r=%d;t=60`, 4-i), "Cache-Control": "no-store"} {
				lines := []string{want, "added"}[:1+boolToInt(m == http.MethodPost)]
				require.Equal(t, lines, resp.Header.Values(name), "%s, request %d", m, i)
			}
			require.Len(t, tokenIn(resp), len(cookieIn(resp).Value))
		}
	}
}
