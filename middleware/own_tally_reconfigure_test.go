// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// Whatever is changed, and changed back: a bought tally has what it was sold with, once.
func TestReconfigureForgetsNothingThatWasSold(t *testing.T) {
	day := middleware.Limit{Name: "day", Quota: 50, Window: 24 * time.Hour}
	minute := middleware.Limit{Name: "minute", Quota: 5, Window: time.Minute}
	mode := func(mode middleware.Mode) func(*middleware.Config) {
		return func(cfg *middleware.Config) {
			challenge := *cfg.Challenge
			challenge.Mode = mode
			if mode == middleware.WhenBusy {
				challenge.BusyAtOnce = 1000
			}
			cfg.Challenge = &challenge
		}
	}
	changes := map[string]func(*middleware.Config){
		"nothing":           func(*middleware.Config) {},
		"no challenge":      func(cfg *middleware.Config) { cfg.Challenge = nil },
		"every request":     mode(middleware.EveryRequest),
		"newcomers":         mode(middleware.Newcomers),
		"when busy":         mode(middleware.WhenBusy),
		"no memory":         func(cfg *middleware.Config) { cfg.InsecureNoMemory = true; cfg.Challenge = nil },
		"another secret":    func(cfg *middleware.Config) { cfg.Secrets = [][]byte{secret("b"), secret("a")} },
		"other limits":      func(cfg *middleware.Config) { cfg.Limits = []middleware.Limit{fixed(9, time.Hour)} },
		"another order":     func(cfg *middleware.Config) { cfg.Limits = []middleware.Limit{day, minute} },
		"a longer memory":   func(cfg *middleware.Config) { c := *cfg.Challenge; c.PassTime = 3 * time.Hour; cfg.Challenge = &c },
		"a shorter memory":  func(cfg *middleware.Config) { c := *cfg.Challenge; c.PassTime = time.Minute; cfg.Challenge = &c },
		"a memory of a day": func(cfg *middleware.Config) { c := *cfg.Challenge; c.PassTime = 24 * time.Hour; cfg.Challenge = &c },
		"another price":     func(cfg *middleware.Config) { c := *cfg.Challenge; c.Crowd, c.SalesPerHour = 99, 1; cfg.Challenge = &c },
		"instances":         func(cfg *middleware.Config) { cfg.Instances = 10 },
		"a tier":            func(cfg *middleware.Config) { cfg.Tiers = map[string][]middleware.Limit{"pro": cfg.Limits} },
		"a customer": func(cfg *middleware.Config) {
			cfg.LimitsFor = patiently(func(context.Context, middleware.Identity) ([]middleware.Limit, error) {
				return []middleware.Limit{minute, {Name: "day", Quota: 60, Window: 24 * time.Hour}}, nil
			})
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.WhenExhausted)
			cfg.Limits, cfg.Challenge.NoWaitingRoom = []middleware.Limit{minute, day}, true
			if name == "a customer" {
				cfg.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.APIKey("k"), nil }
			}
			changed := cfg
			change(&changed)
			r := newSite(t, cfg)
			fresh, used := bought(t, r), bought(t, r)
			require.EqualValues(t, 5, r.Uses(used, 8), "5 in all")
			for range 4 {
				r.To(t, changed)
				admitted(r, 3, showing(used))
				now.Advance(time.Second)
				r.To(t, cfg)
				require.Zero(t, r.Uses(used, 8))
			}
			now.Advance(40 * time.Minute)
			r.To(t, changed)
			r.To(t, cfg)
			require.Zero(t, r.Uses(used, 8), "nor in another window")
			require.EqualValues(t, 5, r.Uses(fresh, 8), "what is not used is still there")
			require.Zero(t, r.Uses(fresh, 8))
		})
	}
}

// What was sold lives as long as it was sold for, and what it has used is known for as long.
func TestPassTimeChangesNothingThatWasSold(t *testing.T) {
	for name, row := range map[string]struct {
		sold, then    time.Duration
		first, second int64
		lives         time.Duration
	}{
		"longer":         {time.Hour, 24 * time.Hour, 3, 47, time.Hour},
		"shorter":        {24 * time.Hour, time.Hour, 50, 0, 48 * time.Hour},
		"not used":       {24 * time.Hour, time.Hour, 0, 3, 48 * time.Hour},
		"longer, unused": {time.Hour, 24 * time.Hour, 0, 50, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.Newcomers)
			cfg.Limits = []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 50, Window: 24 * time.Hour}}
			cfg.Challenge.PassTime, cfg.Challenge.NoWaitingRoom, cfg.MaxClients = row.sold, true, 1
			r := newSite(t, cfg)
			tok, start := bought(t, r), now.Now()
			require.Equal(t, row.first, r.Uses(tok, int(row.first)))
			challenge := *cfg.Challenge
			challenge.PassTime, cfg.Challenge = row.then, &challenge
			r.To(t, cfg)
			require.Equal(t, row.second, r.Uses(tok, 60))
			for now.Now().Sub(start) < row.lives-31*time.Minute {
				now.Advance(30 * time.Minute)
				for i := range 2 { // others take the cells of the dead
					other := from(fmt.Sprintf("198.51.100.%d", i))
					require.Equal(t, 1, admitted(r, 1, other, showing(bought(t, r, other))))
					require.True(t, r.Decisions.Last().Own)
				}
				require.Zero(t, r.Uses(tok, 2), "it has been used up %s ago", now.Now().Sub(start))
				require.Equal(t, http.StatusForbidden, send(r).StatusCode)
				require.Equal(t, http.StatusTooManyRequests, send(r, showing(tok)).StatusCode, "it lives")
			}
			now.Advance(31 * time.Minute)
			require.Equal(t, http.StatusForbidden, send(r, showing(tok)).StatusCode, "it has lived")
		})
	}
}

// What a pass has used is known for as long as it lives, though those live shorter that are sold
// by now, and though these would have had its cell.
func TestAPassIsRememberedForItsOwnLife(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.Newcomers)
	cfg.Limits = []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 50, Window: 24 * time.Hour}}
	cfg.MaxClients, cfg.Challenge.Crowd, cfg.Challenge.NoWaitingRoom = 1, 255, true
	cfg.Challenge.PassTime = 24 * time.Hour
	r := newSite(t, cfg)
	tok := bought(t, r)
	challenge := *cfg.Challenge
	challenge.PassTime, cfg.Challenge = time.Hour, &challenge
	r.To(t, cfg)
	require.EqualValues(t, 3, r.Uses(tok, 5))
	now.Advance(2 * time.Hour)
	for range 16 { // as many as there are cells
		require.EqualValues(t, 1, r.Uses(bought(t, r), 1))
		now.Advance(time.Minute)
	}
	require.Zero(t, r.Uses(tok, 5))
}

// Requests that come while the challenge goes off and on are decided by one or the other, and
// those of a bought tally that are under way are not forgotten.
func TestReconfigureWhileBoughtTalliesAreUsed(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.Newcomers)
	cfg.Limits = []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 100, Window: 24 * time.Hour}}
	cfg.Challenge.PassTime, cfg.Challenge.NoWaitingRoom = 24*time.Hour, true
	off := cfg
	off.Challenge = nil
	r := newSite(t, cfg)
	tok := bought(t, r)
	inParallel(5, func(n int) {
		if n > 0 {
			admitted(r, 100, showing(tok))
			return
		}
		for i := range 40 {
			next := []middleware.Config{off, cfg}[i%2]
			r.Decisions.Hear(&next)
			if err := r.M.Reconfigure(next); err != nil {
				t.Error(err)
			}
		}
	})
	r.To(t, cfg)
	admitted(r, 200, showing(tok))
	require.Len(t, slices.DeleteFunc(r.Decisions.All, func(d middleware.Decision) bool { return !d.Own || !d.Allowed || d.Cost == 0 }), 100)
}
