// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// routes is a site of three routes that share five a minute: one at Config.Cost, a dear one,
// and one that tells what is left.
func routes(t testing.TB, cfg middleware.Config) *site {
	t.Helper()
	s := &site{ServeMux: http.NewServeMux(), spy: new(spy), decisions: record(&cfg)}
	s.m = newLimiter(t, cfg)
	s.Handle("POST /item/{id}", s.m.Handler(s.spy))
	s.Handle("POST /report", s.m.HandlerCost(3, s.spy))
	s.Handle("GET /left", s.m.HandlerCost(0, s.spy))
	s.Handle("POST /everything", s.m.HandlerCost(6, s.spy))
	s.Handle("/tally/", s.m.Endpoints())
	return s
}

func TestHandlerCost(t *testing.T) {
	for _, test := range []struct {
		name string
		cost func(*http.Request) int64
		item string // what is left after an item
		last string // and after a report
	}{
		{"beside the default", nil, `"contact";r=4;t=60`, `"contact";r=1;t=60`},
		{"beside Config.Cost", func(*http.Request) int64 { return 2 }, `"contact";r=3;t=60`, `"contact";r=0;t=60`},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := contact(new(clock))
			cfg.Cost = test.cost
			s := routes(t, cfg)
			left := func() string { return send(s, method("GET"), path("/left")).Header.Get("RateLimit") }
			require.Equal(t, `"contact";r=5`, left())
			require.EqualValues(t, 0, s.decisions.last().Cost)
			require.Equal(t, http.StatusOK, send(s, path("/item/7")).StatusCode)
			require.Equal(t, test.item, left())
			require.Equal(t, http.StatusOK, send(s, path("/report")).StatusCode)
			require.EqualValues(t, 3, s.decisions.last().Cost)
			require.Equal(t, test.last, left())

			require.Equal(t, http.StatusTooManyRequests, send(s, path("/report")).StatusCode)
			require.Equal(t, http.StatusForbidden, send(s, path("/everything")).StatusCode)
			require.Equal(t, middleware.CostAboveQuota, s.decisions.last().Reason)
			require.Equal(t, test.last, left(), "refusals charge nothing")
		})
	}
}

func TestHandlerCostIncorrect(t *testing.T) {
	m := newLimiter(t, contact(new(clock)))
	require.PanicsWithValue(t, "middleware: a route costs from 0 to 2147483647, not -1", func() { m.HandlerCost(-1, new(spy)) })
	require.PanicsWithValue(t, "middleware: a route costs from 0 to 2147483647, not 2147483648", func() { m.HandlerCost(1<<31, new(spy)) })
	require.NotPanics(t, func() { m.HandlerCost(1<<31-1, new(spy)) })
}

// The price follows a new configuration, and can be settled.
func TestHandlerCostIsSettledAndReconfigured(t *testing.T) {
	cfg := contact(new(clock))
	m := newLimiter(t, cfg)
	h := m.HandlerCost(3, &spy{serve: settling(t, false)})
	require.Equal(t, http.StatusOK, send(h, settles(1)).StatusCode)
	require.Equal(t, `"contact";r=4;t=60`, send(m.HandlerCost(0, new(spy))).Header.Get("RateLimit"))
	cfg.Limits = append(cfg.Limits[:0:0], cfg.Limits...)
	cfg.Limits[0].Quota = 10
	cfg.Cost = func(*http.Request) int64 { return 7 }
	require.NoError(t, m.Reconfigure(cfg))
	require.Equal(t, http.StatusOK, send(h).StatusCode)
	require.Equal(t, `"contact";r=6;t=60`, send(m.HandlerCost(0, new(spy))).Header.Get("RateLimit"))
}

// What a page is told for the price of a dear route is what becomes of its form, and the page
// that keeps a form names the price.
func TestHandlerCostIsWhatThePageAsksFor(t *testing.T) {
	cfg := challenging(new(clock), middleware.WhenExhausted)
	cfg.PageHandler, cfg.Challenge.Path = middleware.Interstitial{}, "/tally/"
	s := routes(t, cfg)
	require.False(t, asked(t, s, 3))
	require.Equal(t, http.StatusOK, send(s, path("/report")).StatusCode)
	require.True(t, asked(t, s, 3))
	require.False(t, asked(t, s, 1), "an item would pass")
	resp := requireStatus(t, http.StatusTooManyRequests, send(s, path("/report"), submitting(urlencoded, "a=b")))
	require.Contains(t, bodyOf(t, resp), `<tally-check endpoint="/tally/" cost="3">`)
	tok := bought(t, s)
	require.False(t, asked(t, s, 3, showing(tok)))
	require.Equal(t, http.StatusOK, send(s, path("/report"), showing(tok)).StatusCode)
}
