// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// The response of each Reason has the fields that it must have, and no other.
func TestFieldsOfEachReason(t *testing.T) {
	const (
		policy  = "RateLimit-Policy "
		asked   = policy + "RateLimit " // the limits were
		token   = "Set-Cookie Tallystick-Token "
		refused = "Cache-Control "
		offered = refused + "Tallystick-Challenge "
	)
	var last middleware.Reason
	hear := func(cfg *middleware.Config) {
		cfg.OnDecision = func(_ context.Context, d middleware.Decision) { last = d.Reason }
	}
	plain := func(change func(*middleware.Config, *clock), options ...option) func(*testing.T) *http.Response {
		return func(t *testing.T) *http.Response {
			now := new(clock)
			cfg := contact(now)
			cfg.Cost = costOf
			change(&cfg, now)
			hear(&cfg)
			h, _ := limited(t, cfg)
			return send(h, options...)
		}
	}
	nobody := func(err error) func(*middleware.Config, *clock) {
		return func(cfg *middleware.Config, _ *clock) {
			cfg.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.Identity{}, err }
		}
	}
	failing := func(err error) func(*middleware.Config, *clock) {
		return func(cfg *middleware.Config, now *clock) {
			l := newLedger(now)
			l.Fault = func(context.Context, int) error { return err }
			cfg.Exact = paid(now, l).Exact
		}
	}
	none := func(*middleware.Config, *clock) {}
	selling := func(mode middleware.Mode, play func(*testing.T, *site) *http.Response) func(*testing.T) *http.Response {
		return func(t *testing.T) *http.Response {
			cfg := challenging(new(clock), mode)
			cfg.MaxClients = 1
			s := newSite(t, cfg)
			resp := play(t, s)
			last = s.Decisions.Last().Reason
			return resp
		}
	}
	rows := map[middleware.Reason]struct {
		status int
		fields string
		play   func(*testing.T) *http.Response
	}{
		middleware.WithinLimits: {200, asked + token + "Cache-Control", plain(none)},
		middleware.OverLimit: {429, asked + refused + "Tallystick-Token Retry-After", func(t *testing.T) *http.Response {
			cfg := contact(new(clock))
			hear(&cfg)
			h, _ := limited(t, cfg)
			older := spend(t, h, 4)
			spend(t, h, 1)
			return send(h, showing(older))
		}},
		middleware.CostAboveQuota:      {403, asked + refused, plain(none, costing(6))},
		middleware.NegativeCost:        {500, refused, plain(none, costing(-1))},
		middleware.IdentityUnknown:     {403, refused, plain(nobody(nil))},
		middleware.IdentityUnavailable: {503, refused + "Retry-After", plain(nobody(middleware.ErrIdentityUnavailable))},
		middleware.IdentityDenied:      {401, refused + "WWW-Authenticate", plain(nobody(&middleware.Denial{Status: 401}))},
		middleware.NoToken:             {403, policy + offered, selling(middleware.Newcomers, func(t *testing.T, s *site) *http.Response { return send(s) })},
		middleware.SoldOut: {429, policy + refused + "Retry-After", selling(middleware.Newcomers, func(t *testing.T, s *site) *http.Response {
			s.M.SellOut(midnight, peerIdentity)
			return send(s)
		})},
		middleware.MemoryFull: {403, asked + offered, selling(middleware.EveryRequest, func(t *testing.T, s *site) (resp *http.Response) {
			for i := range 40 {
				who := from(strings.Replace("198.N.100.1", "N", string(rune('1'+i%9))+string(rune('0'+i/9)), 1))
				resp = send(s, who, proving(solved(t, fetched(s, who))))
			}
			return resp
		})},
		middleware.ProofReplayed: {403, asked + refused + offered, selling(middleware.EveryRequest, func(t *testing.T, s *site) *http.Response {
			proof := solved(t, fetched(s))
			require.Equal(t, http.StatusOK, send(s, proving(proof)).StatusCode)
			return send(s, proving(proof))
		})},
		middleware.TooManyAtOnce: {429, policy + refused + "Retry-After", func(t *testing.T) (resp *http.Response) {
			cfg := contact(new(clock))
			cfg.Concurrency = &middleware.Concurrency{Max: 1}
			hear(&cfg)
			m := newLimiter(t, cfg)
			send(m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { resp = send(m.Handler(new(spy))) })))
			return resp
		}},
		middleware.TooEarly:    {425, policy + refused, plain(failing(nil), with("Early-Data", "1"))},
		middleware.Overloaded:  {503, policy + refused + "Retry-After", plain(failing(exact.ErrFull))},
		middleware.CounterDown: {503, policy + refused + "Retry-After Tallystick-Degraded", plain(failing(onFire(t.Context(), 0)))},
	}
	text, err := os.ReadFile("decision.go")
	require.NoError(t, err)
	for _, c := range regexp.MustCompile(`\t([A-Z]\w+) +Reason = "(.+)"`).FindAllStringSubmatch(string(text), -1) {
		require.Contains(t, rows, middleware.Reason(c[2]), "a response of %s", c[1])
	}
	ours := strings.Fields(asked + token + offered + "Retry-After Tallystick-Degraded WWW-Authenticate")
	for reason, row := range rows {
		t.Run(string(reason), func(t *testing.T) {
			resp := row.play(t)
			require.Equal(t, reason, last)
			require.Equal(t, row.status, resp.StatusCode)
			for _, name := range ours {
				require.Equal(t, slices.Contains(strings.Fields(row.fields), name), len(resp.Header.Values(name)) > 0, "%s: %v", name, resp.Header)
			}
		})
	}
}
