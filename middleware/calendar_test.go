// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// monthly has a quota for each month in Berlin, by a clock that is set.
func monthly(now *time.Time, quota int64) middleware.Config {
	clock := func() time.Time { return *now }
	return middleware.Config{
		Policy: "api",
		Limits: []middleware.Limit{
			{Name: "minute", Quota: 600, Window: time.Minute},
			{Name: "month", Quota: quota, Calendar: "month", Zone: "Europe/Berlin"},
		},
		Secrets: [][]byte{secret("a")},
		Exact:   &middleware.Exact{Counter: memory.New(0, clock), Outage: middleware.FailClosed},
		Now:     clock,
	}
}

// A month that is spent on the 30th of January comes back on the first of February, and the response says so: docs/api.md.
func TestCalendarMonths(t *testing.T) {
	now := time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC)
	m := newLimiter(t, monthly(&now, 3))
	d := kit.Must(m.Decide(t.Context(), middleware.Ask{Identity: address("192.0.2.1"), DryRun: true}))(t)
	require.Equal(t, "Europe/Berlin", d.Limits()[1].Zone, "a decision has the limits of the configuration, not what stands in for them")
	h := m.Handler(new(spy))
	for left := range 3 {
		resp := send(h)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, `"minute";q=600;w=60, "month";q=3`, resp.Header.Get("RateLimit-Policy"))
		require.Contains(t, resp.Header.Get("RateLimit"), `"month";r=`+strconv.Itoa(2-left)+";t=126000") // 35 hours: midnight is at 23:00 UTC
	}
	resp := send(h)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Contains(t, resp.Header.Get("RateLimit"), `"month";r=0;t=126000`)
	wait := kit.Must(strconv.Atoi(resp.Header.Get("Retry-After")))(t)
	require.GreaterOrEqual(t, wait, 126000)
	require.LessOrEqual(t, wait, 126030, "to spread clients that return together")

	now = now.Add(35*time.Hour - time.Second)
	require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
	now = now.Add(time.Second)
	require.Equal(t, 3, admitted(h, 9))
	now = time.Date(2026, 3, 31, 21, 59, 59, 0, time.UTC)
	require.Equal(t, 3, admitted(h, 9), "all of March")
	now = now.Add(time.Second)
	require.Equal(t, 3, admitted(h, 9), "April, in summer time")
}

// In an outage a sliding window of 28 days stands in, in each instance for its part.
func TestCalendarMonthsInAnOutage(t *testing.T) {
	now := time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC)
	cfg := monthly(&now, 9)
	cfg.Instances = 3
	cfg.Exact.Outage = middleware.FailOpen
	cfg.Exact.Counter = &altered{OnTake: func(context.Context, exact.Call) (v exact.Verdict, err error) { return v, exact.ErrMaybeCounted }}
	h := newLimiter(t, cfg).Handler(new(spy))
	require.Equal(t, 3, admitted(h, 9))
	now = now.Add(36 * time.Hour)
	require.Equal(t, 0, admitted(h, 9), "February has begun")
	now = now.Add(2 * 28 * 24 * time.Hour)
	require.Equal(t, 3, admitted(h, 9))
}

// A month of tokens in one decision with a minute of requests: what is spent refuses nothing that costs none of it, a settlement
// after the month is over is of the next, and what is above the part of an instance has to wait for the counter.
func TestCalendarMonthsInTokens(t *testing.T) {
	now := time.Date(2026, 1, 31, 22, 59, 0, 0, time.UTC)
	down := false
	cfg := monthly(&now, 1000)
	counter := cfg.Exact.Counter
	cfg.Exact.Outage, cfg.Instances = middleware.FailOpen, 4
	cfg.Exact.Counter = &altered{Counter: counter, OnTake: func(ctx context.Context, call exact.Call) (v exact.Verdict, err error) {
		if down {
			return v, exact.ErrMaybeCounted
		}
		return counter.Take(ctx, call)
	}}
	cfg.Units = map[string]middleware.Unit{"tokens": {Limits: []string{"month"}, Cost: inTokens(cfg).Units["tokens"].Cost}}
	m := newLimiter(t, cfg)
	h := m.Handler(new(spy))
	resp := requireStatus(t, 200, send(h, inputs(900)))
	require.Equal(t, `"minute";q=600;w=60, "month";q=1000;qu="tokens"`, resp.Header.Get("RateLimit-Policy"))
	require.Contains(t, resp.Header.Get("RateLimit"), `"month";r=100;t=60`)
	requireStatus(t, 429, send(h, inputs(101)))
	requireStatus(t, 200, send(h, inputs(0)))
	settling := func(n int64, want error) http.Handler {
		return m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			now = now.Add(2 * time.Minute)
			require.ErrorIs(t, middleware.Settle(r, n, "tokens"), want)
		}))
	}
	requireStatus(t, 200, send(settling(10, exact.ErrNoRefund), inputs(100)))
	require.Equal(t, []int64{600, 1000}, unitsLeft(t, m), "the month of the charge is over")
	now = time.Date(2026, 2, 28, 22, 59, 0, 0, time.UTC)
	requireStatus(t, 200, send(settling(130, nil), inputs(100)))
	require.Equal(t, []int64{600, 970}, unitsLeft(t, m), "30 more, in March")

	down, now = true, now.AddDate(0, 2, 0)
	log := logTo(&cfg)
	h = newLimiter(t, cfg).Handler(new(spy))
	requireStatus(t, 503, send(h, inputs(251)))
	requireStatus(t, 200, send(h, inputs(250)))
	require.NotContains(t, log.String(), "cost-above-quota", "it may pass when the counter answers")
	down = false
	requireStatus(t, 403, send(h, inputs(1001)))
	require.Contains(t, log.String(), "code=cost-above-quota cost=1001 largest=1000")
}

func TestCalendarMistakes(t *testing.T) {
	for problem, change := range map[string]func(*middleware.Config){
		"Limits[1].Calendar: needs an exact counter; a SlidingWindow of 28 days is what comes closest without one": func(cfg *middleware.Config) { cfg.Exact = nil },
		"Limits[1].Calendar: must be day, week or month, not \"year\"":                                             func(cfg *middleware.Config) { cfg.Limits[1].Calendar = "year" },
		"Limits[1].Window: must be 0 with a Calendar, not 30 days":                                                 func(cfg *middleware.Config) { cfg.Limits[1].Window = 720 * time.Hour },
		"Limits[1].Algorithm: of a limit with a Calendar is FixedWindow; leave it out, not sliding-log":            func(cfg *middleware.Config) { cfg.Limits[1].Algorithm = storeless.SlidingLog },
		"Limits[1].Zone: \"Europe/Atlantis\" is not known here (unknown time zone Europe/Atlantis); correct the name or, if this system has no time zones, import _ \"time/tzdata\"": func(cfg *middleware.Config) {
			cfg.Limits[1].Zone = "Europe/Atlantis"
		},
		"Limits[0].Zone: belongs to a Calendar; leave it empty without one": func(cfg *middleware.Config) { cfg.Limits[0].Zone = "UTC" },
		"Tiers[\"pro\"]: must have the names, algorithms, windows and zones of Limits, and the same Shadow, in that order; tiers differ in Quota and Burst alone": func(cfg *middleware.Config) {
			cfg.Tiers = map[string][]middleware.Limit{"pro": {cfg.Limits[0], {Name: "month", Quota: 9, Calendar: "month", Zone: "UTC"}}}
		},
	} {
		var now time.Time
		cfg := monthly(&now, 9)
		change(&cfg)
		_, err := middleware.New(cfg)
		require.EqualError(t, err, `policy "api": `+problem)
	}
}

// A zone that is left out is UTC.
func TestCalendarInUTC(t *testing.T) {
	var now time.Time
	cfg := monthly(&now, 9)
	cfg.Limits[1].Zone = ""
	cfg.Tiers = map[string][]middleware.Limit{"pro": {cfg.Limits[0], {Name: "month", Quota: 90, Calendar: "month", Zone: "UTC"}}}
	kit.Must(middleware.New(cfg))(t)
}

// What Bounds says of a month: the names of its limits, and what stands in for it in an outage.
func TestCalendarBounds(t *testing.T) {
	var now time.Time
	cfg := monthly(&now, 1000)
	cfg.Instances, cfg.Exact.Outage = 10, middleware.FailOpen
	b := kit.Must(middleware.BoundsOf(cfg))(t)
	require.Contains(t, b.String(), "1,000 in a month")
	require.EqualValues(t, 1000, b.Rows[1].Admitted)
	require.EqualValues(t, 1000+2*1000+109, b.Rows[3].Admitted)
}

// A customer's own limits have the zone of the policy, and its one copy.
func TestCalendarOfACustomer(t *testing.T) {
	now := time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC)
	cfg := monthly(&now, 3)
	cfg.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.Principal("ada"), nil }
	cfg.LimitsFor = &middleware.LimitsFor{Func: func(context.Context, middleware.Identity) ([]middleware.Limit, error) {
		own := monthly(&now, 5).Limits
		return own, nil
	}}
	h := newLimiter(t, cfg).Handler(new(spy))
	require.Equal(t, 5, admitted(h, 9))
}
