// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

func peerRequest(remote string, pairs ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.RemoteAddr = remote
	with(pairs...)(r)
	return r
}

// Behind a translator with a prefix of its own, all of IPv4 is no network that is limited.
func TestClientsOfALocalTranslator(t *testing.T) {
	h, _ := limited(t, contact(new(clock)))
	for i := range 256 {
		require.Equal(t, 5, admitted(h, 6, from(fmt.Sprintf("64:ff9b:1::c633:64%02x", i))), "client %d", i)
	}
	require.Zero(t, admitted(h, 1, from("64:ff9b:1::198.51.100.0")))
	require.Equal(t, 5, admitted(h, 6, from("64:ff9b:2::1")), "beside it")
	require.Zero(t, admitted(h, 6, from("64:ff9b:2::2")), "is one /64 as ever")
}

// No identity can be spelled as one of another kind: each has a quota of its own.
func TestIdentitiesDoNotCollide(t *testing.T) {
	long := strings.Repeat("k", 256)
	sum := sha256.Sum256([]byte(long + "k"))
	all := []middleware.Identity{
		address("97.98.99.100"), address("6162:6364::1"), address("64:ff9b:1::1"), address("64:ff9b:1::"), address("64:ff9b:2::"),
		middleware.APIKey("abcd"), middleware.Principal("abcd"), middleware.APIKey("aabcd"), middleware.APIKey("pabcd"),
		middleware.APIKey("a:b" + "c"), middleware.APIKey("a" + "b:c" + ":"), middleware.APIKey("k"), middleware.APIKey("k\x00"),
		middleware.Principal("97.98.99.100"), middleware.APIKey("97.98.99.100"),
		middleware.APIKey(long), middleware.APIKey(long + "k"), middleware.Principal(long + "k"), middleware.APIKey(string(sum[:])),
		middleware.APIKey(long + "k").For("k"), middleware.APIKey(long + "kk"), middleware.APIKey("K" + string(sum[:])),
		// Customers, each in one thing, whose names are made to look like each other's.
		middleware.APIKey("a"), middleware.APIKey("a").For("b"), middleware.APIKey("a").For("b").For("c"),
		middleware.APIKey("a").For("bc"), middleware.APIKey("ab").For("c"), middleware.APIKey("ab"), middleware.APIKey("a1:b"),
		middleware.APIKey("a").For("b1:c"), middleware.Principal("a").For("b"), middleware.APIKey("a1:b\x00\x00\x00\x02"),
		middleware.APIKey("a1:b").For("c"), middleware.APIKey("a").For("1:b"),
	}
	require.Equal(t, middleware.APIKey("a"), middleware.APIKey("a").For(""))
	require.True(t, middleware.APIKey("").For("b").IsZero())
	cfg := contact(new(clock))
	cfg.Limits[0].Quota = 1
	cfg.Identity = func(r *http.Request) (middleware.Identity, error) {
		var i int
		_, err := fmt.Sscan(r.Header.Get("Who"), &i)
		return all[i], err
	}
	h, _ := limited(t, cfg)
	for i := range all {
		require.Equal(t, 1, admitted(h, 3, with("Who", fmt.Sprint(i))), "%d", i)
	}
}

// There is one reader of addresses: what is one in a field of a proxy is one in RemoteAddr, as something further outside
// may have left it, and the other way round.
func TestAnAddressIsReadTheSameEverywhere(t *testing.T) {
	proxy := netip.MustParsePrefix("10.0.0.0/8")
	lists, one := mustIdentity(middleware.ForwardedFor(proxy)), mustIdentity(middleware.AddressFromHeader("X-Real-IP", proxy))
	elements := mustIdentity(middleware.AddressFromHeader("Forwarded", proxy))
	for text, want := range map[string]string{
		"203.0.113.5": "203.0.113.5", "203.0.113.5:4711": "203.0.113.5", "203.0.113.5:": "203.0.113.5", " 203.0.113.5": "203.0.113.5", "203.0.113.5:80\t": "203.0.113.5",
		"2001:db8::1": "2001:db8::1", "[2001:db8::1]": "2001:db8::1", "[2001:db8::1]:": "2001:db8::1", "[2001:db8::1]:4711": "2001:db8::1", " [2001:db8::1%eth0]:80 ": "2001:db8::1",
		"[::ffff:203.0.113.5]": "203.0.113.5", "::ffff:203.0.113.5": "203.0.113.5", "fe80::1%eth0": "fe80::1", "203.0.113.5:00080": "203.0.113.5", "203.0.113.5:65535": "203.0.113.5",
		"": "", ":": "", "[": "", "]": "", "[]": "", "[]:80": "", ":80": "", "[203.0.113.5]": "", "[203.0.113.5]:80": "", "203.0.113.5::80": "", "203.0.113.5:65536": "", "203.0.113.5:-1": "",
		"203.0.113.5:+80": "", "203.0.113.5:80:": "", "[2001:db8::1": "", "2001:db8::1]": "", "[2001:db8::1]80": "", "[2001:db8::1]:80]": "", "[[2001:db8::1]]": "", "2001:db8::1]:80": "",
		"[2001:db8::1]::80": "", "203.0.113.5, 198.51.100.7": "", "203.0.113": "", "0xcb.0.113.5": "", "203.0.113.5 80": "", "localhost:80": "", "203.0.113.5/32": "", "@": "", "/run/app.sock": "",
		"pipe": "", "203.0.113.5:port": "", "203.0.113.256:80": "", "203.0.113.5:80, 198.51.100.7:80": "", "[fe80::1%eth0]:4711": "fe80::1",
	} {
		whom := func(identify middleware.IdentityFunc, remote, field, value string) string {
			r := peerRequest(remote)
			if field != "" {
				r.Header.Set(field, value)
			}
			if id, err := identify(r); err == nil {
				return id.Addr().String()
			}
			return ""
		}
		require.Equal(t, want, whom(middleware.PeerAddress, text, "", ""), "RemoteAddr %q", text)
		require.Equal(t, want, whom(lists, text, "", ""), "RemoteAddr %q, before a list", text)
		require.Equal(t, want, whom(one, "10.0.0.1:80", "X-Real-IP", text), "X-Real-IP %q", text)
		if text = strings.Trim(text, " \t"); text == "" || strings.Contains(text, ",") {
			continue // a list of none, and of two
		}
		require.Equal(t, want, whom(lists, "10.0.0.1:80", "X-Forwarded-For", text), "X-Forwarded-For %q", text)
		if strings.Count(text, ":") > 1 && text[0] != '[' {
			want = "" // RFC 7239 wants brackets
		}
		require.Equal(t, want, whom(elements, "10.0.0.1:80", "Forwarded", `for="`+text+`"`), "Forwarded %q", text)
	}
}

// A socket is blamed where it is one. Whatever else is no address has been put there.
func TestASocketIsBlamedWhereItIsOne(t *testing.T) {
	for remote, because := range map[string]string{
		"": "as on a Unix socket", "@": "as on a Unix socket", "@app": "as on a Unix socket", "/run/app.sock": "as on a Unix socket",
		"pipe": "RemoteAddr holds no address: a middleware outside", "203.0.113.5, 198.51.100.7": "RemoteAddr holds no address", "bufconn": "RemoteAddr holds no address",
	} {
		for _, identify := range []middleware.IdentityFunc{middleware.PeerAddress, mustIdentity(middleware.ForwardedFor(netip.MustParsePrefix("10.0.0.0/8")))} {
			_, err := identify(peerRequest(remote))
			require.ErrorContains(t, err, because, remote)
			require.NotContains(t, err.Error(), "bufconn")
		}
	}
}

// A client that cannot be told is refused by name: never unlimited, never one blank identity for all.
func TestIdentityUnknown(t *testing.T) {
	var typedNil *middleware.Denial
	lost := errors.New("database")
	for name, identity := range map[string]change{
		"nobody":                   telling(middleware.Identity{}, nil),
		"no identity, with a tier": telling(middleware.Identity{Tier: "pro"}, nil),
		"an error":                 telling(middleware.Identity{}, lost),
		"an error and an identity": telling(middleware.APIKey("k"), lost),
		"a typed nil":              telling(middleware.APIKey("k"), typedNil),
	} {
		play(t, []scenario{{name, limiting(identity), []step{{times: 10, want: 403, reason: middleware.IdentityUnknown, see: all{
			says("#identity-unknown"), lacks("database"), // what went wrong is not the client's business
			passed(0), remain(), told("identity-unknown"), // one warning, not ten
		}}}}})
	}
}

func TestDenial(t *testing.T) {
	for name, test := range map[string]struct {
		denial error
		status int
		auth   string
	}{
		"401":            {&middleware.Denial{Status: 401}, 401, "Bearer"},
		"401 with words": {&middleware.Denial{Status: 401, WWWAuthenticate: `ApiKey realm="x"`}, 401, `ApiKey realm="x"`},
		"403":            {&middleware.Denial{Status: 403, WWWAuthenticate: "Bearer"}, 403, ""},
		"anything else":  {&middleware.Denial{Status: 200}, 403, ""},
		"wrapped":        {fmt.Errorf("no such key: %w", &middleware.Denial{Status: 401}), 401, "Bearer"},
	} {
		for _, shadow := range []bool{false, true} { // a denial may guard a door: also in shadow mode
			play(t, []scenario{{fmt.Sprintf("%s, shadow %v", name, shadow), limiting(telling(middleware.APIKey("k"), test.denial), func(cfg *middleware.Config) { cfg.Shadow = shadow }), []step{
				{want: test.status, reason: middleware.IdentityDenied, fields: fields{"WWW-Authenticate": test.auth, "Cache-Control": "no-store"},
					see: all{says(fmt.Sprintf(`"status":%d`, test.status)), passed(0), told()}}, // the program refused; there is nothing to mend
			}}})
		}
	}
	require.Equal(t, "identity denied: Unauthorized", (&middleware.Denial{Status: 401}).Error())
}

func TestValidatedKey(t *testing.T) {
	validate := func(r *http.Request) (id middleware.Identity, err error) {
		switch r.Header.Get("Api-Key") {
		case "good":
			id = middleware.APIKey("customer-17")
			id.Tier = "pro"
		case "revoked":
			err = &middleware.Denial{Status: http.StatusUnauthorized}
		}
		return id, err // unknown: as if absent
	}
	good, elsewhere := with("Api-Key", "good"), from("198.51.100.1")
	play(t, []scenario{{"keys and addresses", limiting(func(cfg *middleware.Config) {
		cfg.Identity, cfg.Tiers = middleware.ValidatedKey(validate, middleware.PeerAddress), map[string][]middleware.Limit{"pro": {fixed(7, time.Minute)}}
	}), []step{
		{as: good, times: 10, passes: 7}, {as: both(good, elsewhere), times: 10, passes: 0}, // the key is asking, from wherever
		{as: with("Api-Key", "revoked"), want: 401},
		{nth: func(i int) option { return with("Api-Key", fmt.Sprintf("invented-%d", i)) }, times: 100, passes: 5}, // invented keys are no identities
		{as: elsewhere, times: 10, passes: 5},                                                                      // another address is
	}}, {"keys alone", limiting(func(cfg *middleware.Config) { cfg.Identity = middleware.ValidatedKey(only(middleware.Identity{}), nil) }), []step{
		{want: 401, fields: fields{"WWW-Authenticate": "Bearer"}},
	}}})
	require.Panics(t, func() { middleware.ValidatedKey(nil, middleware.PeerAddress) })
}

func TestServiceCredential(t *testing.T) {
	_, err := middleware.ServiceCredential("", "short")
	require.ErrorContains(t, err, "name")
	require.ErrorContains(t, err, "credentials[0]: must have at least 32 characters, not 5")
	require.NotContains(t, err.Error(), "short,")
	require.Equal(t, []string{"field", "credentials[0]"}, problems(t, err))
	again := strings.Repeat("a", 32)
	_, err = middleware.ServiceCredential("bad name:", again, again)
	require.Equal(t, []string{"field", "credentials[1]"}, problems(t, err))
	_, err = middleware.ServiceCredential("Internal")
	require.ErrorContains(t, err, "at least one")

	const old, fresh = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	skip := kit.Must(middleware.ServiceCredential("Demo-Internal", old, fresh))(t)
	h, _ := limited(t, changed(contact(new(clock)), func(cfg *middleware.Config) { cfg.Skip = skip }))
	require.Equal(t, 20, admitted(h, 20, with("Demo-Internal", old)))
	require.Equal(t, 20, admitted(h, 20, with("Demo-Internal", fresh)))
	require.Equal(t, 5, admitted(h, 20, with("Demo-Internal", old+"x")))
	for _, wrong := range [][]string{{"Demo-Internal", ""}, {"Demo-Internal", old[1:]}, {"Demo-Internal", old, "Demo-Internal", old}, {"Internal", old}, nil} {
		require.Equal(t, http.StatusTooManyRequests, send(h, with(wrong...)).StatusCode)
	}
}

// What a recorder cannot show: addresses and header lines as net/http hands them over.

func TestIPv6PeerOverTheNetwork(t *testing.T) {
	listener, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		kit.Unable(t, "this machine has no IPv6 loopback: %v", err)
	}
	h := newSite(t, contact(new(clock)))
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
	passes := func(client *http.Client, pairs ...string) (passed int) {
		for range 8 {
			client.CloseIdleConnections() // a port of its own for each request is no identity of its own
			passed += admittedOver(t, client, server.URL, 1, with(pairs...))
		}
		return passed
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

// away is a table of keys that does not answer.
func away(*http.Request) (middleware.Identity, error) {
	return middleware.Identity{}, fmt.Errorf("%w: the table of keys: %w", middleware.ErrIdentityUnavailable, syscall.ECONNREFUSED)
}

// A client that cannot be told now comes again: it is no 403, which says that waiting does not help.
func TestAnIdentityThatIsUnavailable(t *testing.T) {
	by := func(identity middleware.IdentityFunc) change {
		return func(cfg *middleware.Config) { cfg.Identity = identity }
	}
	comeAgain := fields{"Retry-After": anything, "Cache-Control": "no-store"}
	capacity := typed("https://iana.org/assignments/http-problem-types#temporary-reduced-capacity")
	refused := []step{
		{after: time.Second, as: method(http.MethodGet), want: 503, fields: comeAgain, see: all{capacity}},
		{after: time.Second, as: toFetch, want: 503, fields: comeAgain, see: all{capacity, told("identity-unavailable"), func(s *scene) { // once a minute
			require.Contains(s, s.site.Log.Lines()[0], "the table of keys: connection refused")
			d := s.decision()
			require.Equal(s, middleware.IdentityUnavailable, d.Reason)
			require.Positive(s, d.RetryAfter)
			require.ErrorIs(s, d.IdentityErr, syscall.ECONNREFUSED)
			require.True(s, d.Identity.IsZero())
		}}},
	}
	play(t, []scenario{
		{"a function", working(middleware.WhenExhausted, by(away)), refused},
		{"a validated key", working(middleware.WhenExhausted, by(middleware.ValidatedKey(away, middleware.PeerAddress))), refused},
		{"in shadow it passes, and is told", limiting(by(away), func(cfg *middleware.Config) { cfg.Shadow = true }), []step{
			{want: 200, fields: fields{"Retry-After": ""}, see: all{told("identity-unavailable")}},
		}},
		{"a client that hangs up while it is looked for raises no alarm", limiting(by(away)), []step{{as: hungUp, want: 503, see: all{told()}}}},
		{"a denial is a denial", limiting(telling(middleware.Identity{}, errors.Join(middleware.ErrIdentityUnavailable, &middleware.Denial{Status: http.StatusUnauthorized}))), []step{
			{want: 401},
		}},
	})
}

// decisionOn returns what a policy decides about a request by id.
func decisionOn(t *testing.T, cfg middleware.Config, id middleware.Identity, options ...option) middleware.Decision {
	t.Helper()
	cfg.Identity = func(*http.Request) (middleware.Identity, error) { return id, nil }
	h := newSite(t, cfg)
	send(h, options...)
	return h.Decisions.Last()
}

// pseudonymOf returns the pseudonym of id in a policy of its own.
func pseudonymOf(t *testing.T, id middleware.Identity) string {
	t.Helper()
	cfg := contact(new(clock))
	cfg.MaxClients = 16
	return decisionOn(t, cfg, id).Pseudonym()
}

// pro returns id with a tier.
func pro(id middleware.Identity) middleware.Identity {
	id.Tier = "pro"
	return id
}

// Addresses, keys and users that share a quota have one pseudonym, and no others have it.
func TestAddress(t *testing.T) {
	seen := map[string]string{}
	for name, ids := range map[string][]middleware.Identity{
		"IPv4":            {address("192.0.2.1"), address("::ffff:192.0.2.1"), address("64:ff9b::192.0.2.1")}, // behind a translator
		"its neighbour":   {address("192.0.2.2"), address("::ffff:192.0.2.2"), address("64:ff9b::192.0.2.2")},
		"a /64":           {address("2001:db8::1"), address("2001:db8::"), address("2001:db8::ffff:1%eth0"), address("2001:db8:0:0:ffff:ffff:ffff:ffff")},
		"link-local":      {address("fe80::1"), address("fe80::1%eth0"), address("fe80::2%eth1")},
		"IPv4 of before":  {address("::192.0.2.1")},
		"no translator":   {address("64:ff9b:0:1::192.0.2.1")},
		"the next /64":    {address("2001:db8:0:1::1")},
		"a key":           {middleware.APIKey("k"), pro(middleware.APIKey("k"))},
		"a user":          {middleware.Principal("k")},
		"a user in a":     {middleware.Principal("k").For("a")},
		"a user in a, b":  {middleware.Principal("k").For("a").For("b")},
		"a user, b, a":    {middleware.Principal("k").For("b").For("a")},
		"a user of k1:a":  {middleware.Principal("k1:a")},
		"an address in a": {address("192.0.2.1").For("a")},
		"96 bits, 1":      {address("64:ff9b:1::192.0.2.1")}, // RFC 8215: clients of translators with prefixes of these lengths
		"96 bits, 2":      {address("64:ff9b:1::192.0.2.2")},
		"another prefix":  {address("64:ff9b:1:7::c000:201")},
		"and another":     {address("64:ff9b:1:8::c000:201")},
		"64 bits, 1":      {address("64:ff9b:1:7:c0:2:100:0")},
		"64 bits, 2":      {address("64:ff9b:1:7:c0:2:200:0")},
		"56 bits, 1":      {address("64:ff9b:1:7c0:0:201::")},
		"56 bits, 2":      {address("64:ff9b:1:7c0:0:202::")},
		"48 bits, 1":      {address("64:ff9b:1:c000:2:100::")},
		"48 bits, 2":      {address("64:ff9b:1:c000:2:200::")},
	} {
		for _, id := range ids {
			p := pseudonymOf(t, id)
			require.Regexp(t, `^[a-z2-7]{16}$`, p)
			if other, known := seen[p]; known {
				require.Equal(t, name, other)
			}
			seen[p] = name
		}
	}
	require.Len(t, seen, 24)
	require.True(t, middleware.Address(netip.Addr{}).IsZero())
	require.True(t, middleware.APIKey("").IsZero())
	require.True(t, middleware.Principal("").IsZero())
	require.False(t, middleware.APIKey("k").IsZero())
}

// It is on all instances and after a restart what it was, in each policy, whatever the
// decision, and changes in a rotation once: when another secret signs.
func TestPseudonymStays(t *testing.T) {
	id := address("203.0.113.7")
	with := func(change func(*middleware.Config)) string {
		cfg := contact(new(clock))
		change(&cfg)
		return decisionOn(t, cfg, id).Pseudonym()
	}
	old := with(func(*middleware.Config) {})
	require.Equal(t, "4o6mk7bfmjlarqmc", old, "after an upgrade, too")
	for name, change := range map[string]func(*middleware.Config){
		"another policy":    func(cfg *middleware.Config) { cfg.Policy = "login" },
		"a secret is added": func(cfg *middleware.Config) { cfg.Secrets = append(cfg.Secrets, secret("b")) },
		"other limits":      func(cfg *middleware.Config) { cfg.Limits = []middleware.Limit{{Quota: 1, Window: time.Hour}} },
		"an unknown tier":   func(cfg *middleware.Config) { id.Tier = "pro" },
		"a cost too high":   func(cfg *middleware.Config) { cfg.Cost = func(*http.Request) int64 { return 99 } },
		"a wrong cost":      func(cfg *middleware.Config) { cfg.Cost = func(*http.Request) int64 { return -1 } },
		"proof wanted":      func(cfg *middleware.Config) { cfg.Challenge = &middleware.Challenge{Mode: middleware.Newcomers} },
	} {
		require.Equal(t, old, with(change), name)
	}
	fresh := with(func(cfg *middleware.Config) { cfg.Secrets = [][]byte{secret("b"), cfg.Secrets[0]} })
	require.NotEqual(t, old, fresh, "a new secret signs")
	require.Equal(t, fresh, with(func(cfg *middleware.Config) { cfg.Secrets = [][]byte{secret("b")} }), "the old one is dropped")
}

func TestPseudonymOfNobody(t *testing.T) {
	require.Empty(t, middleware.Decision{}.Pseudonym())
	require.Empty(t, middleware.Decision{Identity: address("192.0.2.1")}.Pseudonym(), "no policy has decided")
	d := decisionOn(t, contact(new(clock)), middleware.Identity{Tier: "pro"})
	require.Equal(t, middleware.IdentityUnknown, d.Reason)
	require.True(t, d.Identity.IsZero())
	require.Empty(t, d.Pseudonym())
}

func TestAddr(t *testing.T) {
	for given, want := range map[string]string{
		"192.0.2.1":             "192.0.2.1",
		"::ffff:192.0.2.1":      "192.0.2.1",
		"64:ff9b::192.0.2.1":    "192.0.2.1",
		"64:ff9b:1:7::c000:201": "64:ff9b:1:7::c000:201",
		"2001:db8::1":           "2001:db8::1",
		"2001:db8:1:2:3:4:5:6":  "2001:db8:1:2:3:4:5:6",
		"fe80::1%eth0":          "fe80::1",
		"::":                    "::",
		"0.0.0.0":               "0.0.0.0",
	} {
		require.Equal(t, netip.MustParseAddr(want), address(given).Addr())
		require.Equal(t, netip.MustParseAddr(want), address(given).For("shop").For("b").Addr())
	}
	for _, id := range []middleware.Identity{{}, middleware.APIKey("192.0.2.1"), middleware.Principal("u"), {Tier: "pro"}, middleware.Address(netip.Addr{})} {
		require.Equal(t, netip.Addr{}, id.Addr())
		require.False(t, netip.MustParsePrefix("0.0.0.0/0").Contains(id.Addr()))
		require.False(t, netip.MustParsePrefix("::/0").Contains(id.Addr()))
	}
}

// Neither the address nor the name comes into a log by accident.
func TestIdentityDoesNotPrintWho(t *testing.T) {
	for _, test := range []struct {
		id    middleware.Identity
		is    string
		never []string
	}{
		{address("203.0.113.7"), "address", []string{"203.0.113.7", "203 0 113 7", "cb007107", "CB007107", "0xcb, 0x0, 0x71, 0x7"}},
		{address("2001:db8:aaaa:bbbb::cccc"), "address", []string{"2001:", "aaaa", "AAAA", "170 170", "cccc", "CCCC"}},
		{middleware.Principal("alice@example.com").For("shop"), "principal", []string{"alice", "616c", "616C", "shop", "97 108"}},
		{middleware.APIKey("sesame-open"), "key", []string{"sesame", "736573616d65", "736573616D65", "115 101 115"}},
		{middleware.Identity{}, "nobody", nil},
	} {
		id := pro(test.id)
		require.Equal(t, "middleware.Identity("+test.is+")", fmt.Sprint(id))
		cfg := contact(new(clock))
		d := decisionOn(t, cfg, id, from("198.51.100.77"), with("Authorization", "Bearer hunter2"))
		held := struct{ D middleware.Decision }{d}
		ways := printed(id) + printed(&id) + printed([]middleware.Identity{id})
		for _, v := range []any{d, &d, held, []any{d}} {
			ways += printed(v)
		}
		for _, never := range append(test.never, "hunter2", "198.51.100.77") {
			require.False(t, strings.Contains(ways, never), never)
		}
	}
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "who", address("203.0.113.7"))
	require.Contains(t, b.String(), `who=middleware.Identity(address)`)
	text := kit.Must(json.Marshal(address("203.0.113.7")))(t)
	require.JSONEq(t, `{"Tier":""}`, string(text))
}

// An address may be in a list to the last bit, though the client is a /64.
func ExampleIdentity_Addr() {
	office := []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8::7/128")}
	for _, id := range []middleware.Identity{address("198.51.100.9"), address("2001:db8::7"), address("2001:db8::8"), middleware.Principal("alice")} {
		fmt.Println(slices.ContainsFunc(office, func(p netip.Prefix) bool { return p.Contains(id.Addr()) }))
	}
	// Output:
	// true
	// true
	// false
	// false
}
