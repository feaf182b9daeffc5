// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
)

// A flood never gets into the fallback, however slow it makes the server, and however many
// instances ask it. Those who are known pass beside it.
func TestFloodsReachNoFallback(t *testing.T) {
	for _, row := range []struct {
		name      string
		service   time.Duration
		instances int
		inFlight  int64
		clients   int           // that flood an instance
		slows     time.Duration // what a call takes from the middle on; 0: as before
	}{
		{name: "25µs x 1", service: 25 * time.Microsecond, instances: 1, clients: 300},
		{name: "150µs x 1", service: 150 * time.Microsecond, instances: 1, clients: 300},
		{name: "25µs x 4", service: 25 * time.Microsecond, instances: 4, clients: 300},
		{name: "200µs x 1", service: 200 * time.Microsecond, instances: 1, clients: 300},
		{name: "100µs x 2", service: 100 * time.Microsecond, instances: 2, clients: 300},
		{name: "100µs x 3", service: 100 * time.Microsecond, instances: 3, clients: 300},
		{name: "200µs x 4", service: 200 * time.Microsecond, instances: 4, clients: 300},
		{name: "200µs x 1, InFlight 64", service: 200 * time.Microsecond, instances: 1, inFlight: 64, clients: 300},
		{name: "200µs x 4, few clients", service: 200 * time.Microsecond, instances: 4, clients: 100},
		{name: "2ms x 4", service: 2 * time.Millisecond, instances: 4, clients: 300},
		{name: "25µs x 4, then 250µs", service: 25 * time.Microsecond, instances: 4, clients: 300, slows: 250 * time.Microsecond},
	} {
		for _, told := range []bool{false, true} {
			brief := row.name == "200µs x 1" && !told || row.name == "200µs x 4" && told
			if !brief && (kit.Brief() || !kit.Long() && told) {
				continue
			}
			kit.RunBubble(t, fmt.Sprintf("%s, deadlines told %t", row.name, told), func(t *testing.T) {
				server := &queue{service: row.service}
				if told {
					server.stale = row.service / 3
				}
				s := newScene(t, row.instances, server, middleware.Exact{Outage: middleware.FailOpen, InFlight: row.inFlight})
				strangers, payers := s.toll(), s.toll()
				s.flood(strangers, row.clients, addresses)
				s.stream(payers, 50, paying("one"))
				long := briefly(1500 * time.Millisecond)
				s.lasts(long, func(at time.Duration) {
					if at > long/2 && row.slows > 0 {
						server.slows(row.slows)
					}
				})
				t.Logf("payers %s, longest %s; strangers %s; %d alarms", payers, payers.longest, strangers, s.alarms())
				require.Zero(t, strangers.fallback)
				require.Zero(t, payers.fallback)
				require.Zero(t, s.alarms())
				require.Less(t, payers.refused*20, payers.passed, "more than 95 % of payers pass")
				require.LessOrEqual(t, payers.longest, 50*time.Millisecond)
				require.Positive(t, strangers.passed)
			})
		}
	}
}

// A key that cost nothing is authenticated too, and does not starve one that was paid for.
func TestOneKeyDoesNotStarveAnother(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := newScene(t, 1, &queue{service: 200 * time.Microsecond}, middleware.Exact{Outage: middleware.FailOpen})
		free, payers, strangers := s.toll(), s.toll(), s.toll()
		s.flood(free, 300, paying("free"))
		s.flood(strangers, 300, addresses)
		s.stream(payers, 50, paying("one"))
		long := briefly(time.Second)
		s.lasts(long, nil)
		t.Logf("payers %s, free %s, strangers %s", payers, free, strangers)
		require.Less(t, payers.refused*20, payers.passed, "more than 95 % of payers pass")
		require.Zero(t, payers.fallback)
		require.Positive(t, free.passed)
		require.Greater(t, strangers.passed*4, free.passed*3, "strangers have their turns as well")
		require.Zero(t, free.fallback+strangers.fallback)
	})
}

// Keys that are to be had for nothing, by the hundred, are strangers where the program has
// said which tiers pay: as addresses are, they leave room for those who do.
func TestFreeKeysDoNotStarvePayers(t *testing.T) {
	for _, row := range []struct {
		service   time.Duration
		instances int
		paying    []string
	}{
		{150 * time.Microsecond, 1, []string{"paid"}},
		{150 * time.Microsecond, 1, nil},
		{100 * time.Microsecond, 3, []string{"paid"}},
		{2 * time.Millisecond, 4, []string{"paid"}},
	} {
		if row.instances > 1 && kit.Brief() {
			continue
		}
		kit.RunBubble(t, fmt.Sprintf("%s x %d, paying %v", row.service, row.instances, row.paying), func(t *testing.T) {
			s := newScene(t, row.instances, &queue{service: row.service}, middleware.Exact{Outage: middleware.FailOpen, PayingTiers: row.paying})
			free, strangers, payers := s.toll(), s.toll(), s.toll()
			s.flood(free, 300, func(n int, r *http.Request) { r.Header.Set("Payer", fmt.Sprint("free", n)) })
			s.flood(strangers, 50, addresses)
			s.stream(payers, 50, func(n int, r *http.Request) {
				r.Header.Set("Payer", fmt.Sprint("payer", n%20))
				r.Header.Set("Tier", "paid")
			})
			long := briefly(1500 * time.Millisecond)
			s.lasts(long, nil)
			t.Logf("payers %s, longest %s; free %s; strangers %s", payers, payers.longest, free, strangers)
			if row.paying == nil {
				require.Less(t, payers.passed, payers.refused, "which is why it is to be said")
				return
			}
			require.Less(t, payers.refused*20, payers.passed, "more than 95 % of payers pass")
			require.Zero(t, payers.fallback+free.fallback+strangers.fallback)
			require.Positive(t, free.passed+strangers.passed, "who pays nothing has what is left")
		})
	}
}

// A policy without a store in front of an exact one keeps floods by few addresses off the
// counter: the first shield, and the cheapest.
func TestACheapPolicyShieldsAnExactOne(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		for _, shielded := range []bool{false, true} {
			s := newScene(t, 1, &queue{service: 200 * time.Microsecond}, middleware.Exact{Outage: middleware.FailOpen})
			if shielded {
				local := handlers.NewLimiter(t, middleware.Config{
					Policy:     "local",
					Limits:     []middleware.Limit{{Quota: 20, Window: time.Second}},
					Secrets:    [][]byte{handlers.Secret("a")},
					MaxClients: 1024,
					Identity:   payerOr,
				})
				s.sites[0] = local.Handler(s.sites[0])
			}
			strangers, payers := s.toll(), s.toll()
			s.flood(strangers, 300, func(n int, r *http.Request) { r.RemoteAddr = fmt.Sprintf("198.18.0.%d:1", n%3) })
			s.stream(payers, 10, paying("one"))
			s.lasts(time.Second, nil)
			t.Logf("shielded %t: %d calls, payers %s, longest %s", shielded, s.calls(), payers, payers.longest)
			require.Zero(t, payers.refused+payers.fallback)
			if shielded {
				require.LessOrEqual(t, s.calls(), 3*2*20+10, "two windows meet in a second")
				require.Less(t, payers.longest, 5*time.Millisecond)
			} else {
				require.Greater(t, s.calls(), 4000)
			}
		}
	})
}
