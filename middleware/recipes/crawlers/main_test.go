// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
	"github.com/tallystick/tallystick/proof/kit"
)

// zones are what the name server of the test knows.
var zones = map[string]string{
	"1.66.249.66.in-addr.arpa.":             "crawl-66-249-66-1.googlebot.com.",
	"crawl-66-249-66-1.googlebot.com.":      "66.249.66.1",
	"2.66.249.66.in-addr.arpa.":             "crawl-66-249-66-2.googlebot.com.",
	"crawl-66-249-66-2.googlebot.com.":      "66.249.66.2",
	"1.39.77.157.in-addr.arpa.":             "msnbot-157-77-39-1.search.msn.com.",
	"msnbot-157-77-39-1.search.msn.com.":    "157.77.39.1",
	"1.100.51.198.in-addr.arpa.":            "crawl-66-249-66-1.googlebot.com.", // the owner of an address may write anything there
	"2.100.51.198.in-addr.arpa.":            "crawl.notgooglebot.com.",
	"crawl.notgooglebot.com.":               "198.51.100.2",
	"3.100.51.198.in-addr.arpa.":            "crawl.googlebot.com.example.net.",
	"crawl.googlebot.com.example.net.":      "198.51.100.3",
	"crawl-2001-4860-4801.googlebot.com.":   "2001:4860:4801::5",
	reversed("5", "2001486048010000") + ".": "crawl-2001-4860-4801.googlebot.com.",
}

// reversed is the name of an IPv6 address whose last 64 bits are one digit.
func reversed(last, first string) string {
	labels := strings.Split(first+strings.Repeat("0", 15)+last, "")
	for i, j := 0, len(labels)-1; i < j; i, j = i+1, j-1 {
		labels[i], labels[j] = labels[j], labels[i]
	}
	return strings.Join(labels, ".") + ".ip6.arpa"
}

// nameServer answers over loopback, and counts what it is asked.
func nameServer(t *testing.T) (*net.Resolver, *atomic.Int64) {
	t.Helper()
	conn := kit.Must(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = conn.Close() })
	asked := new(atomic.Int64)
	go func() {
		for buf := make([]byte, 512); ; {
			n, from, err := conn.ReadFrom(buf)
			var m dnsmessage.Message
			if err != nil || m.Unpack(buf[:n]) != nil {
				return
			}
			asked.Add(1)
			packed, err := answer(m)
			if err == nil {
				_, _ = conn.WriteTo(packed, from)
			}
		}
	}()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}
	return &net.Resolver{PreferGo: true, Dial: dial}, asked
}

func answer(m dnsmessage.Message) ([]byte, error) {
	q := m.Questions[0]
	value, known := zones[q.Name.String()]
	addr, _ := netip.ParseAddr(value)
	var body dnsmessage.ResourceBody
	switch {
	case q.Type == dnsmessage.TypePTR && known:
		body = &dnsmessage.PTRResource{PTR: dnsmessage.MustNewName(value)}
	case q.Type == dnsmessage.TypeA && addr.Is4():
		body = &dnsmessage.AResource{A: addr.As4()}
	case q.Type == dnsmessage.TypeAAAA && addr.Is6():
		body = &dnsmessage.AAAAResource{AAAA: addr.As16()}
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if body != nil {
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60}, Body: body}}
	} else if !known {
		m.RCode = dnsmessage.RCodeNameError
	}
	return m.Pack()
}

const google = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"

// Visitors have a quota of one here. What a client may send beyond it says whose it was taken for.
func TestCrawlers(t *testing.T) {
	for name, c := range map[string]struct {
		addr, agent string
		proven      bool
		questions   int64 // asked for three requests
	}{
		"a crawler":                           {"66.249.66.1", google, true, 3},
		"a crawler by IPv6":                   {"2001:4860:4801::5", google, true, 3},
		"another crawler":                     {"157.77.39.1", "Mozilla/5.0 (compatible; bingbot/2.0)", true, 3},
		"another crawler than it says":        {"157.77.39.1", google, false, 3},
		"a name that leads elsewhere":         {"198.51.100.1", google, false, 3},
		"a name that only ends so":            {"198.51.100.2", google, false, 1},
		"a name that goes on":                 {"198.51.100.3", google, false, 1},
		"an address without a name":           {"192.0.2.9", google, false, 1},
		"a browser at an address of Google's": {"66.249.66.1", "Mozilla/5.0", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			resolver, asked := nameServer(t)
			url := serve(t, resolver)
			for n := range 3 {
				status := http.StatusTooManyRequests
				if n == 0 || c.proven {
					status = http.StatusOK
				}
				require.Equal(t, status, send(t, url, c.addr, c.agent).Status, "request %d", n+1)
			}
			require.Equal(t, c.questions, asked.Load())
		})
	}
}

func serve(t *testing.T, resolver *net.Resolver) string {
	t.Helper()
	identity := kit.Must(middleware.ForwardedFor(netip.MustParsePrefix("127.0.0.0/8")))(t)
	cfg := loopback.Config("visitors", 1)
	cfg.Identity = identity
	h := kit.Must(site(cfg, resolver, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))(t)
	return loopback.Serve(t, h)
}

func send(t *testing.T, url, addr, agent string) loopback.Answer {
	t.Helper()
	return loopback.Send(t, http.MethodGet, url, "", "X-Forwarded-For", addr, "User-Agent", agent)
}

// All addresses of a crawler have one tally. Beyond it each is a visitor.
func TestACrawlerHasOneTally(t *testing.T) {
	resolver, _ := nameServer(t)
	url := serve(t, resolver)
	passed := 0
	for n := range 610 {
		addr := []string{"66.249.66.1", "66.249.66.2"}[n%2]
		if send(t, url, addr, google).Status == http.StatusOK {
			passed++
		}
	}
	require.Equal(t, 602, passed, "600 of the crawler, and one of each address")
	require.Equal(t, http.StatusOK, send(t, url, "157.77.39.1", "bingbot").Status)
}

// While another question is under way, a crawler is a visitor, and its next request asks. Without a name server it is one for an hour.
func TestDNSIsAway(t *testing.T) {
	resolver, _ := nameServer(t)
	c := &crawlers{resolver: resolver}
	addr := netip.MustParseAddr("66.249.66.1")
	c.asking.Lock()
	require.Empty(t, c.of(addr))
	c.asking.Unlock()
	require.Equal(t, "Googlebot", c.of(addr))

	nowhere := func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
	away := &crawlers{resolver: &net.Resolver{PreferGo: true, Dial: nowhere}}
	require.Empty(t, away.of(addr))
	away.resolver = resolver
	require.Empty(t, away.of(addr))
	away.since = time.Now().Add(-2 * time.Hour)
	require.Equal(t, "Googlebot", away.of(addr))
}

// What is kept of strangers is bounded.
func TestStrangersFillNoMemory(t *testing.T) {
	c := &crawlers{since: time.Now(), known: map[netip.Addr]string{}, resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }}}
	for addr := range 10_050 {
		c.of(netip.AddrFrom4([4]byte{203, 0, byte(addr >> 8), byte(addr)}))
		require.LessOrEqual(t, len(c.known), 10_000)
	}
}
