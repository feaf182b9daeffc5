// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/lease"
	"github.com/tallystick/tallystick/middleware/exact/memory"
)

// A worker spends the quota that its customer spends by requests.
func TestExactCallIsTheCallOfARequest(t *testing.T) {
	c := new(clock)
	counter := memory.New(0, c.Now)
	cfg := paid(c, counter)
	pro := cfg.Limits[0]
	pro.Quota = 9
	cfg.Tiers = map[string][]middleware.Limit{"pro": {pro}}
	customer := middleware.APIKey("c1").For("maps")
	customer.Tier = "pro"
	cfg.Identity = only(customer)
	h := newSite(t, cfg)
	require.Equal(t, 4, admitted(h, 4))
	call, err := h.M.CallFor(customer)
	require.NoError(t, err)
	for range 5 {
		v, err := counter.Take(t.Context(), call)
		require.NoError(t, err)
		require.True(t, v.Admitted)
	}
	require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
	v, err := counter.Peek(t.Context(), call)
	require.NoError(t, err)
	require.Zero(t, v.Limits[0].Remaining)

	_, err = h.M.CallFor(middleware.Identity{})
	require.ErrorContains(t, err, "nobody")
	_, err = newLimiter(t, contact(c)).CallFor(customer)
	require.ErrorContains(t, err, "Config.Exact")
}

// An operator sees what a customer has used, and has it forgotten: on the instance that is asked at
// once, on others and by tokens within ten seconds. Nobody else's is.
func TestResetForgetsOneCustomer(t *testing.T) {
	address := middleware.Address(netip.MustParseAddr("192.0.2.1"))
	for name, tc := range map[string]struct {
		id     middleware.Identity
		change func(*middleware.Config)
	}{
		"an address": {address, func(*middleware.Config) {}},
		"a network":  {middleware.Address(netip.MustParseAddr("2001:db8::1")), func(*middleware.Config) {}},
		"one thing":  {middleware.APIKey("c1").For("maps"), func(*middleware.Config) {}},
		"a lease": {middleware.Principal("c1"), func(cfg *middleware.Config) {
			leased, err := lease.New(cfg.Exact.Counter, lease.Config{})
			require.NoError(t, err)
			cfg.Limits[0].Quota, cfg.Exact.Counter = 200, leased
		}},
		"five at once": {middleware.Principal("c1"), func(cfg *middleware.Config) { cfg.Concurrency = &middleware.Concurrency{Max: 5} }},
	} {
		t.Run(name, func(t *testing.T) {
			c, asks := new(clock), tc.id
			cfg := paid(c, memory.New(0, c.Now))
			tc.change(&cfg)
			if leased, ok := cfg.Exact.Counter.(engine.ArchiveCloser); ok {
				t.Cleanup(func() { require.NoError(t, leased.Close()) })
			}
			cfg.Identity = func(*http.Request) (middleware.Identity, error) { return asks, nil }
			a, b := newLimiter(t, cfg), newLimiter(t, cfg)
			spend := func(m *middleware.Middleware) (n int) { return admitted(m.Handler(new(spy)), 400) }
			all := spend(a)
			require.Positive(t, all)
			asks = middleware.Principal("another")
			require.Positive(t, spend(b))
			asks = tc.id
			require.Zero(t, spend(b))
			d, err := a.Decide(t.Context(), middleware.Ask{Identity: tc.id, DryRun: true})
			require.NoError(t, err)
			require.False(t, d.Admitted)
			require.Positive(t, d.RetryAfter)
			require.NoError(t, a.Reset(t.Context(), tc.id))
			require.Zero(t, admitted(b.Handler(new(spy)), 1), "it has not heard of it yet")
			require.Equal(t, all, spend(a))
			require.NoError(t, a.Reset(t.Context(), tc.id))
			c.Advance(10 * time.Second)
			require.Equal(t, all, spend(b), "it has")
			asks = middleware.Principal("another")
			require.Zero(t, spend(a))
			require.Zero(t, spend(b))
		})
	}
}

func TestResetThatCannotBe(t *testing.T) {
	c := new(clock)
	m := newLimiter(t, paid(c, memory.New(0, c.Now)))
	require.ErrorContains(t, m.Reset(t.Context(), middleware.Identity{}), "nobody")
	require.NoError(t, m.Reset(t.Context(), middleware.Principal("was never here")))
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, m.Reset(ended, middleware.Principal("c1")), context.Canceled)
	require.ErrorContains(t, newLimiter(t, contact(c)).Reset(t.Context(), middleware.Principal("c1")), "Config.Exact")
	require.ErrorIs(t, newLimiter(t, paid(c, &altered{Counter: memory.New(0, c.Now)})).Reset(t.Context(), middleware.Principal("c1")), exact.ErrNoArchive)
}

// A counter that waits for a disk names its own deadline, and what stands around it has the same.
func TestDeadlinesOfCounters(t *testing.T) {
	lease := func(engine exact.Counter) exact.Counter {
		leased, err := lease.New(engine, lease.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = leased.Close() })
		return leased
	}
	for _, tc := range []struct {
		counter exact.Counter
		want    time.Duration
	}{
		{memory.New(0, nil), 50 * time.Millisecond},
		{lease(memory.New(0, nil)), 50 * time.Millisecond},
		{&unhurried{wants: 3 * time.Second}, 3 * time.Second},
		{lease(&unhurried{wants: 3 * time.Second}), 3 * time.Second},
	} {
		require.Equal(t, tc.want, middleware.DeadlineOf(middleware.Exact{Counter: tc.counter}), "%T", tc.counter)
		require.Equal(t, time.Second, middleware.DeadlineOf(middleware.Exact{Counter: tc.counter, Deadline: time.Second}))
	}
	cfg := contact(new(clock))
	cfg.Exact = &middleware.Exact{Counter: &unhurried{wants: time.Hour}, Outage: middleware.FailClosed}
	_, err := middleware.New(cfg)
	require.ErrorContains(t, err, "Exact.Deadline: must be from 1ms to 10s, or 0 for the default of the counter, not 1h0m0s")
}

// An unhurried counter names a deadline.
type unhurried struct {
	exact.Counter
	wants time.Duration
}

func (p *unhurried) Deadline() time.Duration { return p.wants }
