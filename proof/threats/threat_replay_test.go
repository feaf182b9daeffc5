// SPDX-License-Identifier: Apache-2.0

package threats_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/players"
	"github.com/tallystick/tallystick/proof/truth"
)

// The numbers T1 to T47, here and elsewhere, are those of docs/threats.md.
func TestThreatsOfTheToken(t *testing.T) {
	hundred := func() middleware.Config {
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Limits = []middleware.Limit{{Quota: 100, Window: time.Minute}}
		return cfg
	}
	t.Run("T1 drop the token at each request", func(t *testing.T) {
		h, spy := handlers.Limited(t, hundred())
		require.Equal(t, 100, handlers.Admitted(h, 1000))
		require.EqualValues(t, 100, spy.Calls.Load())
	})
	t.Run("T2 replay an old token", func(t *testing.T) {
		h, _ := handlers.Limited(t, hundred())
		first := handlers.Spend(t, h, 1)
		for i := range 99 {
			resp := handlers.Send(h, handlers.Showing(first))
			require.Equal(t, fmt.Sprintf(`"contact";r=%d`, 98-i), withoutTime(resp.Header.Get("RateLimit")))
		}
		require.Zero(t, handlers.Admitted(h, 900, handlers.Showing(first)))
	})
	t.Run("T2 roll back to a token without counts", func(t *testing.T) {
		cfg := hundred()
		cfg.Cost = handlers.CostOf
		h, _ := handlers.Limited(t, cfg)
		peek := handlers.RequireStatus(t, http.StatusOK, handlers.Send(h, handlers.Costing(0)))
		require.Empty(t, handlers.TokenIn(peek), "there is nothing to say yet, and so nothing to roll back to")
	})
	t.Run("T3 fork one token to several instances", func(t *testing.T) {
		instances := handlers.Fleet(t, 5, hundred())
		tok := handlers.Spend(t, instances[0], 40)
		total := 40
		for _, h := range instances {
			total += handlers.Admitted(h, 1000, handlers.Showing(tok))
		}
		require.Equal(t, 40+5*60, total, "what the token says is counted everywhere")
		require.LessOrEqual(t, total, 5*100)
	})
	t.Run("T4 honest parallelism", func(t *testing.T) {
		for _, n := range []int64{1, 3} {
			f := fleet.New(int(n), hundred())
			f.AtOnce = true
			a := &players.Attacker{Fleet: f, From: []string{fleet.V4(0)}}
			a.AtOnce(6, func() int { return fleet.Balancer })
			require.LessOrEqual(t, a.Gained().Admitted, truth.Instances{N: n}.AtOnce(100, 6))
			require.GreaterOrEqual(t, a.Gained().Admitted, int64(100))
		}
	})
	t.Run("T6 show a token from another address", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		h := handlers.NewSite(t, cfg)
		stolen := handlers.Spend(t, h, 1, handlers.From("198.51.100.1"))
		require.Equal(t, 4, handlers.Admitted(h, 10, handlers.From("198.51.100.1")))

		require.Equal(t, http.StatusOK, handlers.Send(h, handlers.From("203.0.113.9"), handlers.Showing(stolen)).StatusCode)
		require.Zero(t, h.Decisions.Last().Tokens)
		require.Equal(t, 4, handlers.Admitted(h, 10, handlers.From("203.0.113.9"), handlers.Showing(stolen)), "neither more nor less")
	})
	t.Run("T6 share one identity's token among its own requests", func(t *testing.T) {
		instances := handlers.Fleet(t, 2, handlers.Contact(new(handlers.Clock)))
		tok := handlers.Spend(t, instances[0], 5)
		require.Zero(t, handlers.Admitted(instances[1], 5, handlers.Showing(tok)))
	})
}

// withoutTime cuts the t parameter from a RateLimit field of one item.
func withoutTime(rateLimit string) string {
	item, _, _ := strings.Cut(rateLimit, ";t=")
	return item
}

func TestThreatsOfManyAddresses(t *testing.T) {
	const net56, net48 = 8, 64 // times the quota of one /64
	// through sends n requests each from the addresses that a format names.
	through := func(h http.Handler, addresses, n int, format string) (passed int) {
		for i := range addresses {
			passed += handlers.Admitted(h, n, handlers.From(fmt.Sprintf(format, i)))
		}
		return passed
	}
	t.Run("T7 rotate through one IPv6 /64", func(t *testing.T) {
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		require.Equal(t, 5, through(h, 1000, 1, "2001:db8:1:2::%x"))
	})
	t.Run("T7 rotate through the /64s of a /56", func(t *testing.T) {
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		require.Equal(t, 5*net56, through(h, 256, 2, "2001:db8:1:%x::1"))
	})
	t.Run("T7 rotate through the /56s of a /48", func(t *testing.T) {
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		require.Equal(t, 5*net48, through(h, 256, 4, "2001:db8:1:%x00::1"))
		require.Equal(t, 5, handlers.Admitted(h, 10, handlers.From("2001:db8:2::1")), "the neighbours are not in it")
	})
	t.Run("T7 the first /56 of a /48 is not the /48", func(t *testing.T) {
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		for i := 1; i <= net56; i++ {
			require.Equal(t, 5, handlers.Admitted(h, 5, handlers.From(fmt.Sprintf("2001:db8:1:%x00::1", i))))
		}
		require.Equal(t, 5, handlers.Admitted(h, 5, handlers.From("2001:db8:1::1")), "40 of 320 in the /48, none in the /56")
	})
	t.Run("T7 a refused network is told when to return", func(t *testing.T) {
		now := new(handlers.Clock)
		h, _ := handlers.Limited(t, handlers.Contact(now))
		through(h, 256, 2, "2001:db8:1:%x::1")
		now.Advance(20 * time.Second)
		resp := handlers.RequireStatus(t, http.StatusTooManyRequests, handlers.Send(h, handlers.From("2001:db8:1:ff::1")))
		require.Equal(t, `"contact";r=0;t=40`, resp.Header.Get("RateLimit"))
		handlers.RequireRetry(t, resp, 40)
	})
	t.Run("T7 the factors are settable", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Net56Factor, cfg.Net48Factor = 1, 2
		h, _ := handlers.Limited(t, cfg)
		require.Equal(t, 5*2, through(h, 1024, 1, "2001:db8:1:%x::1"))
	})
	t.Run("T7 on three instances", func(t *testing.T) {
		h := handlers.InTurn(handlers.Fleet(t, 3, handlers.Contact(new(handlers.Clock))))
		require.LessOrEqual(t, through(h, 256, 7, "2001:db8:1:%x::1"), 3*5*net56)
	})
}
