// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// asking returns a limiter with a quota nobody spends, and a function that sends it one request each second.
func asking(t *testing.T, identify middleware.IdentityFunc) (ask func(options ...option), log *logged, now *clock) {
	now = new(clock)
	cfg := contact(now)
	cfg.Limits[0].Quota = 1 << 20
	cfg.Identity = identify
	log = logTo(&cfg)
	h, _ := limited(t, cfg)
	return func(options ...option) {
		now.Advance(time.Second)
		require.Equal(t, 200, send(h, options...).StatusCode)
	}, log, now
}

func TestAPeerThatIsAProxyIsLogged(t *testing.T) {
	for peer, clients := range map[string]int{
		"172.16.4.2": 1, "10.1.2.3": 1, "192.168.0.9": 1, "fdaa:0:1::3": 1, "127.0.0.1": 1, "::1": 1, // private
		"169.254.169.126": 1, "fe80::1": 1, // link-local: sandboxes
		"100.64.0.3": 1, "100.127.255.255": 1, // shared: platforms
		"::ffff:10.0.0.1": 1,
		"35.191.0.5":      4, "2600:1901::5": 4, // public: a load balancer, or a client that invents
		"100.63.255.255": 4, "100.128.0.0": 4, "172.32.0.1": 4,
	} {
		for _, field := range []string{
			"X-Forwarded-For", "Forwarded", "X-Real-IP", "Fly-Client-IP", "CF-Connecting-IP", "True-Client-IP", "X-Client-IP",
			"Fastly-Client-IP", "X-Envoy-External-Address",
		} {
			t.Run(peer+" "+field, func(t *testing.T) {
				ask, log, _ := asking(t, nil)
				ask(from(peer))
				for i := range clients {
					require.Empty(t, log.Lines(), "after %d clients", i)
					value := fmt.Sprintf("203.0.113.%d", i+1)
					if field == "Forwarded" {
						value = "for=" + value
					}
					ask(from(peer), with(field, value))
				}
				require.Contains(t, log.Only(t), "all of its clients share one quota")
				require.Contains(t, strings.ToLower(log.Lines()[0]), "field="+strings.ToLower(field))
				require.NotContains(t, log.Lines()[0], "203.0.113", "nothing that was sent")
			})
		}
	}
}

// Fly.io ends the list with the app's own address: to ForwardedFor, that is everybody.
func TestAListThatEndsWithTheSameIsLogged(t *testing.T) {
	identify := mustIdentity(middleware.ForwardedFor(netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("fdaa::/16")))
	for name, end := range map[string]struct {
		last    string
		clients int
	}{"public": {"66.241.125.1", 4}, "private": {"10.0.0.7", 1}} {
		t.Run(name, func(t *testing.T) {
			ask, log, _ := asking(t, identify)
			for i := range end.clients {
				require.Empty(t, log.Lines())
				ask(from("172.16.4.2"), with("X-Forwarded-For", fmt.Sprintf("203.0.113.%d, %s", i+5, end.last)))
			}
			require.Contains(t, log.Only(t), "all of its clients share one quota")
		})
	}
}

func TestClientsThatAreNoProxies(t *testing.T) {
	behind := mustIdentity(middleware.ForwardedFor(proxies...))
	for name, test := range map[string]struct {
		identify middleware.IdentityFunc
		request  func(i int) []option
	}{
		"clients of a trusted proxy": {behind, func(i int) []option {
			return []option{from("10.0.0.1"), with("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i))}
		}},
		"clients that each name themselves": {nil, func(i int) []option {
			return []option{from(fmt.Sprintf("203.0.113.%d", i)), with("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i))}
		}},
		"one that names another, always the same": {nil, func(int) []option {
			return []option{with("X-Forwarded-For", "198.51.100.1")}
		}},
		"one that names one network": {nil, func(i int) []option {
			return []option{with("X-Forwarded-For", fmt.Sprintf("2001:db8::%x", i+1))}
		}},
		"a company's proxy that names its own": {nil, func(i int) []option {
			return []option{with("X-Forwarded-For", fmt.Sprintf("10.0.0.%d", i))}
		}},
		"one that writes garbage": {nil, func(i int) []option {
			return []option{with("X-Forwarded-For", fmt.Sprintf("x%d", i), "Forwarded", fmt.Sprintf("for=_%d", i), "X-Real-IP", fmt.Sprint(i))}
		}},
		"private ones, without a field": {nil, func(i int) []option {
			return []option{from(fmt.Sprintf("10.0.0.%d", i))}
		}},
		"keys": {only(middleware.APIKey("k")), func(i int) []option {
			return []option{from("10.0.0.1"), with("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i))}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ask, log, _ := asking(t, test.identify)
			for i := range 40 {
				ask(test.request(i)...)
			}
			require.Empty(t, log.Lines())
		})
	}
}

// A client can cause one line a minute, and no more: neither by addresses that it invents
// nor by connections from many.
func TestProxiesFillNoDisk(t *testing.T) {
	ask, log, now := asking(t, nil)
	start := now.Now()
	for i := range 1200 {
		ask(from(fmt.Sprintf("203.0.113.%d", i%50)), with("X-Forwarded-For", fmt.Sprintf("198.51.%d.%d", i/250, i%250)))
	}
	require.LessOrEqual(t, len(log.Lines()), int(now.Now().Sub(start)/time.Minute))
	require.NotEmpty(t, log.Lines())
}

// Noise does not hide a proxy for longer than a day, nor does an old day count.
func TestProxiesAreForgotten(t *testing.T) {
	ask, log, now := asking(t, nil)
	for i := range 8 {
		ask(from(fmt.Sprintf("203.0.113.%d", i)), with("X-Forwarded-For", "198.51.100.1"))
	}
	clients := func(n int) {
		for i := range n {
			ask(from("35.191.0.5"), with("X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i)))
		}
	}
	clients(20)
	require.Empty(t, log.Lines(), "all places are taken")
	now.Advance(24 * time.Hour)
	clients(3)
	now.Advance(24 * time.Hour)
	clients(3)
	require.Empty(t, log.Lines(), "three a day")
	clients(4)
	require.Len(t, log.Lines(), 1)
}
