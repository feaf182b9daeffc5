// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
)

// A flood never gets into the fallback, however slow it makes the server, and however many
// instances ask it. Known clients pass beside it.
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
		long := time.Second // two payers at most are refused before the key that floods is known
		s.lasts(long, nil)
		t.Logf("payers %s, free %s, strangers %s", payers, free, strangers)
		require.Less(t, payers.refused*20, payers.passed, "more than 95 % of payers pass")
		require.Zero(t, payers.fallback)
		require.Positive(t, free.passed)
		require.Greater(t, strangers.passed*4, free.passed*3, "strangers have their turns as well")
		require.Zero(t, free.fallback+strangers.fallback)
	})
}

// Keys that cost nothing, by the hundred, are strangers if the program has said which tiers
// pay: like addresses, they leave room for the clients that pay.
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
			require.Positive(t, free.passed+strangers.passed, "a stranger has what is left")
		})
	}
}

// A cluster is a counter on three servers. A call's key chooses one.
type cluster struct {
	exact.Counter
	nodes [3]queued

	mu   sync.Mutex
	hang bool // the first
}

func (c *cluster) hangs(hang bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hang = hang
}

// Part implements [engine.Partitioned].
func (c *cluster) Part(call exact.Call) int { return int(call.Key[0]) % len(c.nodes) }

// Take implements [exact.Counter].
func (c *cluster) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	n := c.Part(call)
	c.mu.Lock()
	hang := c.hang && n == 0
	c.mu.Unlock()
	if hang {
		return never(ctx, exact.Call{})
	}
	return c.nodes[n].Take(ctx, call)
}

// One node that hangs is an outage of its customers, and of no others.
func TestOneHungNodeIsOneNodesOutage(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := new(cluster)
		for i := range c.nodes {
			c.nodes[i].server = &queue{service: time.Millisecond}
		}
		s := &scene{over: make(chan struct{}), server: new(queue)}
		s.add(t, c, middleware.Exact{Outage: middleware.FailClosed})
		var ill []string
		var well []string
		for n := 0; len(ill) < 16 || len(well) < 32; n++ {
			customer := fmt.Sprint("customer", n)
			call := kit.Must(s.limits[0].CallFor(middleware.Principal(customer)))(t)
			if c.Part(call) == 0 {
				ill = append(ill, customer)
			} else {
				well = append(well, customer)
			}
		}
		healthy, sick := s.toll(), s.toll()
		c.hangs(true)
		s.flood(healthy, 32, func(n int, r *http.Request) { r.Header.Set("Payer", well[n%len(well)]) })
		s.flood(sick, 200, func(n int, r *http.Request) { r.Header.Set("Payer", ill[n%len(ill)]) })
		s.lasts(3*time.Second, func(at time.Duration) {
			if at == 2*time.Second {
				c.hangs(false)
			}
		})
		t.Logf("on healthy nodes: %s, longest %s; on the hung one: %s, the last refused after %s", healthy, healthy.longest, sick, sick.lastRefused)
		require.Zero(t, healthy.refused)
		says := promises[rowNode]
		require.LessOrEqual(t, healthy.longest, says.grows)
		require.LessOrEqual(t, sick.longest, says.grows)
		require.Positive(t, sick.refused)
		require.Positive(t, sick.passed, "it recovers")
		require.Equal(t, 1, s.alarms(), "one alarm")
		require.Len(t, s.told("requests for the keys of one part are refused"), 1)
		require.LessOrEqual(t, s.told("does not answer")[0].Sub(healthy.began), says.alarm)
		end := s.allClear(t, healthy.began.Add(2*time.Second))
		require.GreaterOrEqual(t, end, time.Duration(0), "the other nodes answer all the time")
		require.LessOrEqual(t, end, says.well)
	})
}

// never answers, until the caller has had enough.
func never(ctx context.Context, _ exact.Call) (exact.Verdict, error) {
	<-ctx.Done()
	return exact.Verdict{}, fmt.Errorf("%w: %w", exact.ErrMaybeCounted, ctx.Err())
}

// One process counts for all, in its memory. Each time that it dies, a client that drops its tokens gets the limit once
// more, and no more than that.
func TestDeathOfTheProcessThatCounts(t *testing.T) {
	const quota, instances, deaths = 5, 3, 2
	now := new(handlers.Clock)
	secrets := remote.Config{Secrets: [][]byte{handlers.Secret("counter")}}
	var process atomic.Pointer[http.Handler]
	start := func() {
		h := kit.Must(remote.Serve(memory.New(0, now.Now), secrets))(t)
		process.Store(&h)
	}
	start()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*process.Load()).ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	counter := kit.Must(remote.Open([]string{server.URL}, secrets))(t)
	t.Cleanup(func() { require.NoError(t, counter.Close()) })

	var fleet []http.Handler
	for range instances {
		cfg := handlers.Contact(now)
		cfg.Limits = []middleware.Limit{{Quota: quota, Window: time.Hour}}
		cfg.Exact = &middleware.Exact{Counter: counter, Outage: middleware.FailClosed, Deadline: 10 * time.Second}
		fleet = append(fleet, handlers.NewLimiter(t, cfg).Handler(new(handlers.Spy)))
	}
	got := 0
	for life := range 1 + deaths {
		if life > 0 {
			start()
			now.Advance(11 * time.Second) // a refusal is remembered for ten
		}
		for n := range 10 * instances {
			if handlers.Send(fleet[n%instances]).StatusCode == http.StatusOK {
				got++
			}
		}
		require.Equal(t, quota*(1+life), got)
	}
}
