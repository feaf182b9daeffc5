// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

// Names that are typed, such as that of a log-in, are as long as a client likes: none that is
// longer than a customer's drives the database, or is kept.
func TestLimitsForNoEndlessName(t *testing.T) {
	reg := &registry{limits: map[string][]middleware.Limit{}}
	cfg := contracts(new(clock), reg)
	cfg.LimitsFor = patiently(reg.limitsFor)
	m := newLimiter(t, cfg)
	long, things := strings.Repeat("x", 1024), strings.Repeat("y", 1018)
	reg.limits[long] = minutely(20)
	for _, test := range []struct {
		who   middleware.Identity
		quota int64
		calls int
	}{
		{middleware.Principal(long), 20, 1},
		{middleware.Principal(long + "x"), 5, 1},
		{middleware.APIKey(strings.Repeat("x", 10<<20)), 5, 1},
		{middleware.Principal(long).For(things), 5, 1}, // of the tier
		{middleware.Principal("a").For(things), 5, 2},
	} {
		require.EqualValues(t, test.quota, peeked(t, m, test.who).Limits()[0].Quota)
		require.Equal(t, test.calls, reg.calls())
	}
}

// A flood of strangers with invalid keys, or with none, asks the database nothing, and those
// who have accounts get a customer's numbers neither away nor down, however many they are.
func TestLimitsForInAFlood(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		now, reg := new(clock), &registry{limits: map[string][]middleware.Limit{"paying": minutely(20)}}
		cfg := contracts(now, reg)
		cfg.LimitsFor.Customers = 64
		cfg.MaxClients = 1 << 15
		cfg.Identity = middleware.ValidatedKey(func(r *http.Request) (middleware.Identity, error) {
			if name := r.Header.Get("X-Customer"); name == "paying" || strings.HasPrefix(name, "free-") {
				return middleware.APIKey(name), nil
			}
			return middleware.Identity{}, nil
		}, middleware.PeerAddress)
		h, _ := limited(t, cfg)
		policy := func(who ...option) string { return send(h, who...).Header.Get("RateLimit-Policy") }
		for i := range 500 {
			require.Contains(t, policy(customer("guess-"+strconv.Itoa(i))), "q=5;")
			require.Contains(t, policy(from("198.51.100.7"), customer("")), "q=5;")
		}
		require.Zero(t, reg.calls())
		paying := 0
		for i := range 5000 {
			require.Contains(t, policy(customer("free-"+strconv.Itoa(i))), "q=5;")
			if i%8 == 0 {
				require.Contains(t, policy(customer("paying")), "q=20;", i)
				now.Advance(time.Millisecond)
			}
		}
		for _, who := range reg.asked {
			if who == "/paying" {
				paying++
			}
		}
		require.LessOrEqual(t, paying, 5000/8/4, "of those times")
	})
}

// A customer whose numbers nobody can find keeps others waiting for no longer than the
// deadline, and those that are known not at all.
func TestLimitsForSlowCustomersKeepNobody(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		now, reg := new(clock), &registry{limits: map[string][]middleware.Limit{"known": minutely(20)}}
		m := newLimiter(t, contracts(now, reg))
		quota := func(name string) (int64, time.Duration) {
			began := time.Now()
			d := peeked(t, m, middleware.Principal(name))
			return d.Limits()[0].Quota, time.Since(began)
		}
		q, took := quota("known")
		require.EqualValues(t, 20, q)
		require.Zero(t, took)
		reg.takes = time.Hour // which looks at no context
		for i := range 40 {
			_, took := quota("slow-" + strconv.Itoa(i))
			require.LessOrEqual(t, took, 100*time.Millisecond)
			_, took = quota("slow-" + strconv.Itoa(i))
			require.Zero(t, took, "nobody waits twice")
		}
		now.Advance(5 * time.Minute)
		for range 3 {
			q, took = quota("known")
			require.EqualValues(t, 20, q)
		}
		require.Zero(t, took)
		require.Equal(t, 1+16, reg.calls())
		time.Sleep(2 * time.Hour)
	})
}

// Numbers of before a new configuration apply where no answer comes, under the shape of now alone.
func TestLimitsForStaleNumbers(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		now, reg := new(clock), &registry{limits: map[string][]middleware.Limit{"a": minutely(20)}}
		cfg := contracts(now, reg)
		m := newLimiter(t, cfg)
		a := check(t, m, middleware.Principal("a"), 12)
		require.True(t, a.Allowed)
		reg.err = errEngine
		require.NoError(t, m.Reconfigure(cfg))
		require.EqualValues(t, 8, peeked(t, m, middleware.Principal("a")).Limits()[0].Remaining)
		require.NoError(t, a.Settle(2))
		require.EqualValues(t, 18, peeked(t, m, middleware.Principal("a")).Limits()[0].Remaining)

		cfg.Limits = []middleware.Limit{fixed(5, time.Hour)} // for which 20 was not meant
		require.NoError(t, m.Reconfigure(cfg))
		require.EqualValues(t, 5, peeked(t, m, middleware.Principal("a")).Limits()[0].Quota)
		require.ErrorContains(t, a.Settle(2), "settled already")
	})
}
