// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/keptform"
)

// routes is a site of routes that share five a minute: one at Config.Cost, a dear one, one that tells what is left,
// and one that is too dear for all but a tier.
func routes(t testing.TB, cfg middleware.Config) *site {
	t.Helper()
	s := &site{ServeMux: http.NewServeMux(), Spy: new(spy), Decisions: record(&cfg)}
	cfg.Tiers = map[string][]middleware.Limit{"large": {{Algorithm: middleware.FixedWindow, Quota: 6, Window: time.Minute}}}
	s.M = newLimiter(t, cfg)
	s.Handle("POST /item/{id}", s.M.Handler(s.Spy))
	s.Handle("POST /report", s.M.HandlerCost(3, s.Spy))
	s.Handle("GET /left", s.M.HandlerCost(0, s.Spy))
	s.Handle("POST /everything", s.M.HandlerCost(6, s.Spy))
	s.Handle("/tally/", s.M.Endpoints())
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
			require.EqualValues(t, 0, s.Decisions.Last().Cost)
			require.Equal(t, http.StatusOK, send(s, path("/item/7")).StatusCode)
			require.Equal(t, test.item, left())
			require.Equal(t, http.StatusOK, send(s, path("/report")).StatusCode)
			require.EqualValues(t, 3, s.Decisions.Last().Cost)
			require.Equal(t, test.last, left())

			require.Equal(t, http.StatusTooManyRequests, send(s, path("/report")).StatusCode)
			require.Equal(t, http.StatusForbidden, send(s, path("/everything")).StatusCode)
			require.Equal(t, middleware.CostAboveQuota, s.Decisions.Last().Reason)
			require.Equal(t, test.last, left(), "refusals charge nothing")
		})
	}
}

func TestHandlerCostIncorrect(t *testing.T) {
	m := newLimiter(t, contact(new(clock)))
	require.PanicsWithValue(t, "middleware: a route costs from 0 to 2147483647, not -1", func() { m.HandlerCost(-1, new(spy)) })
	require.PanicsWithValue(t, "middleware: a route costs from 0 to 2147483647, not 2147483648", func() { m.HandlerCost(1<<31, new(spy)) })
	require.NotPanics(t, func() { m.HandlerCost(5, new(spy)) })
	for name, mount := range map[string]func(){
		"Handler": func() { m.Handler(nil) }, "HandlerCost": func() { m.HandlerCost(1, nil) }, "a function": func() { m.Handler(http.HandlerFunc(nil)) },
	} {
		require.PanicsWithValue(t, "middleware: nil handler", mount, name)
	}
	m = nil // of New, whose error was not looked at
	for name, mount := range map[string]func(){
		"Handler": func() { m.Handler(new(spy)) }, "HandlerCost": func() { m.HandlerCost(1, new(spy)) }, "Endpoints": func() { m.Endpoints() }, "ScriptURL": func() { m.ScriptURL() },
	} {
		require.PanicsWithValue(t, "middleware: a Middleware must be made by New, which has returned no error", mount, name)
	}
}

// A route that can never be served is told when it is mounted: an error if no client may ever use so much, and a warning if
// a tier may not.
func TestRoutesThatNobodyCanAfford(t *testing.T) {
	five := middleware.Limit{Algorithm: middleware.FixedWindow, Quota: 5, Window: time.Minute}
	nobody := func(largest int64) string {
		return fmt.Sprintf(`level=ERROR msg="tallystick: a cost is above what its client may ever use; refused with 403, and so is everybody" policy=contact code=cost-above-quota cost=25 largest=%d remedy=`, largest)
	}
	line := func(largest int64, tier string) string {
		return fmt.Sprintf(`level=WARN msg="tallystick: a cost is above what its client may ever use; refused with 403" policy=contact code=cost-above-quota cost=25 largest=%d tier=%s remedy=`, largest, tier)
	}
	for name, test := range map[string]struct {
		change func(*middleware.Config)
		want   string // a part of the line
	}{
		"no quota":        {func(*middleware.Config) {}, nobody(5)},
		"no tier":         {func(cfg *middleware.Config) { cfg.Tiers = tierOf(five, 20) }, nobody(20)},
		"a tier":          {func(cfg *middleware.Config) { cfg.Limits[0].Quota, cfg.Tiers = 25, tierOf(five, 20) }, line(20, "other")},
		"all but a tier":  {func(cfg *middleware.Config) { cfg.Tiers = tierOf(five, 25) }, line(5, `""`)},
		"the smallest":    {func(cfg *middleware.Config) { cfg.Limits = append(cfg.Limits, limitOf(100, time.Hour)) }, nobody(5)},
		"enough":          {func(cfg *middleware.Config) { cfg.Limits[0].Quota = 25 }, ""},
		"a burst":         {func(cfg *middleware.Config) { cfg.Limits = bucketOf(100, 24) }, nobody(24)},
		"burst enough":    {func(cfg *middleware.Config) { cfg.Limits = bucketOf(1, 25) }, ""},
		"a shadow":        {func(cfg *middleware.Config) { cfg.Limits = append(bucketOf(100, 50), shadowOf(five)) }, ""},
		"in shadow mode":  {func(cfg *middleware.Config) { cfg.Shadow = true }, ""},
		"own tallies":     {forms(middleware.Newcomers), nobody(5)},
		"what is counted": {func(cfg *middleware.Config) { cfg.Limits, cfg.ByOutcome = failuresOf(5) }, nobody(5)},
		"a customer of unknown quota": {func(cfg *middleware.Config) {
			cfg.Identity = only(middleware.APIKey("x"))
			cfg.LimitsFor = patiently(func(context.Context, middleware.Identity) ([]middleware.Limit, error) { return nil, nil })
		}, line(5, `""`)},
		"a counter": {func(cfg *middleware.Config) { cfg.Exact = paid(new(clock), newLedger(new(clock))).Exact }, nobody(5)},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := contact(new(clock))
			test.change(&cfg)
			log := logTo(&cfg)
			m := newLimiter(t, cfg)
			m.HandlerCost(25, new(spy))
			said := strings.Join(log.Lines(), "")
			require.Equal(t, test.want == "", said == "", said)
			require.Contains(t, said, test.want)
		})
	}

	// A quota that is lowered below a route later is told then, and Config.Cost when it is asked.
	now := new(clock)
	cfg := contact(now)
	cfg.Limits[0].Quota = 25
	log := logTo(&cfg)
	m := newLimiter(t, cfg)
	h := m.HandlerCost(25, new(spy))
	cfg.Limits = []middleware.Limit{five}
	require.NoError(t, m.Reconfigure(cfg))
	require.Len(t, log.Lines(), 1)
	require.Equal(t, http.StatusForbidden, send(h).StatusCode)

	cfg.Policy, cfg.Cost = "cost", func(*http.Request) int64 { return 6 }
	h = newLimiter(t, cfg).Handler(new(spy))
	for range 90 {
		now.Advance(time.Second)
		require.Equal(t, http.StatusForbidden, send(h).StatusCode)
	}
	require.Len(t, log.Lines(), 3, "one a minute")
	require.Contains(t, log.Lines()[2], "code=cost-above-quota cost=6 largest=5 ")
}

func tierOf(of middleware.Limit, quota int64) map[string][]middleware.Limit {
	of.Quota = quota
	return map[string][]middleware.Limit{"other": {of}}
}

func limitOf(quota int64, window time.Duration) middleware.Limit {
	return middleware.Limit{Quota: quota, Window: window}
}

func bucketOf(quota, burst int64) []middleware.Limit {
	return []middleware.Limit{{Algorithm: middleware.TokenBucket, Quota: quota, Burst: burst, Window: time.Minute}}
}

func shadowOf(l middleware.Limit) middleware.Limit {
	l.Name, l.Shadow = "tried", true
	return l
}

// failuresOf counts attempts, of which there are plenty, and failures by outcome.
func failuresOf(quota int64) ([]middleware.Limit, *middleware.ByOutcome) {
	return []middleware.Limit{{Name: "attempts", Quota: 100, Window: time.Minute}, {Name: "failures", Quota: quota, Window: time.Minute}},
		&middleware.ByOutcome{Limits: []string{"failures"}}
}

// The price follows a new configuration, and can be settled.
func TestHandlerCostIsSettledAndReconfigured(t *testing.T) {
	cfg := contact(new(clock))
	m := newLimiter(t, cfg)
	h := m.HandlerCost(3, &spy{Serve: settling(t, false)})
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
	cfg.PageHandler, cfg.Challenge.Path = keptform.Handler{}, "/tally/"
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
