// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

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

func TestPseudonymIsOneForEachQuota(t *testing.T) {
	seen := map[string]string{}
	for name, ids := range map[string][]middleware.Identity{
		"IPv4":            {address("192.0.2.1"), address("::ffff:192.0.2.1"), address("64:ff9b::192.0.2.1")},
		"its neighbour":   {address("192.0.2.2")},
		"a /64":           {address("2001:db8::1"), address("2001:db8::"), address("2001:db8::ffff:1%eth0")},
		"the next /64":    {address("2001:db8:0:1::1")},
		"a key":           {middleware.APIKey("k"), pro(middleware.APIKey("k"))},
		"a user":          {middleware.Principal("k")},
		"a user in a":     {middleware.Principal("k").For("a")},
		"a user in a, b":  {middleware.Principal("k").For("a").For("b")},
		"a user, b, a":    {middleware.Principal("k").For("b").For("a")},
		"a user of k1:a":  {middleware.Principal("k1:a")},
		"an address in a": {address("192.0.2.1").For("a")},
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
	require.Len(t, seen, 11)
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
	text, err := json.Marshal(address("203.0.113.7"))
	require.NoError(t, err)
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
