// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/lease"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

func TestExactQuotaIsOneForAllInstances(t *testing.T) {
	play(t, []scenario{{"of clients that show no token", byCounter(), []step{
		{times: 5, passes: 5}, {on: 1, times: 5}, {on: 2, times: 5}, {on: 3, times: 5, see: all{charged(5)}},
	}}})
}

func TestExactRoutes(t *testing.T) {
	ahead := time.Duration(0) // of the clocks
	silent := &altered{OnTake: func(context.Context, exact.Call) (v exact.Verdict, err error) {
		v.Wait = time.Minute
		return v, nil
	}}
	play(t, []scenario{
		{"counts of tokens are ignored", byCounter(), []step{
			{do: func(s *scene) { // by an instance that did not ask the counter
				open := paid(s.now, &altered{OnTake: notTaken(errEngine)})
				open.Exact.Outage = middleware.FailOpen
				s.tokens["spent"] = spend(s, newLimiter(s, open).Handler(new(spy)), 5)
			}, show: "spent", want: 200},
		}},
		{"a spent key makes no call until its time", byCounter(), []step{
			{times: 5, want: 200}, {want: 429, keep: "told", see: all{calls(6)}},
			{want: 429}, {on: 1, show: "told", want: 429, fields: fields{"Retry-After": anything}},
			{after: 2 * time.Second, want: 429}, {on: 1, show: "told", want: 429, fields: fields{"Retry-After": anything}},
			{after: 2999 * time.Millisecond, want: 429}, {on: 1, show: "told", want: 429, fields: fields{"Retry-After": anything}, see: all{calls(6)}},
			{after: time.Millisecond, on: 1, show: "told", want: 429, see: all{calls(7)}}, // once more there, after five seconds
			{after: 4999 * time.Millisecond, want: 429}, {on: 1, want: 429, see: all{calls(7)}},
			{after: 50*time.Second + time.Millisecond, want: 200}, {on: 1, show: "told", want: 200, see: all{calls(9)}}, // a minute in all
		}},
		{"a dear request is refused and a cheap one passes", byCounter(func(cfg *middleware.Config) { cfg.Cost = costOf }), []step{
			{as: costing(4), want: 200}, {as: costing(2), want: 429},
			{as: costing(3), show: latest, want: 429, see: all{calls(2)}}, // nothing is asked about a dearer one
			{as: costing(1), show: latest, want: 200}, {as: costing(6), want: 403, see: all{calls(3)}},
			{as: costing(0), want: 200, fields: fields{"RateLimit": `"contact";r=0;t=60`}, see: all{charged(5)}},
		}},
		{"a refusal is told once more, with the time of the counter's answer", byCounter(), []step{
			{want: 200, keep: "older"}, {times: 6, passes: 4},
			{want: 429, keep: "told"}, // from memory, to a client that shows nothing
			{show: "told", want: 429, fields: fields{middleware.TokenHeader: ""}},
			{on: 1, show: "told", want: 429}, {on: 2, show: "told older", want: 429}, {on: 3, show: "older told", want: 429, see: all{calls(6)}},
			{after: 4 * time.Second, want: 429, keep: "late"},
			{after: time.Second, want: 429, fields: fields{middleware.TokenHeader: ""}}, // no instance would believe it
			{on: 4, show: "late", want: 429, see: all{calls(7)}},
		}},
		{"a peek is admitted in an outage", byCounter(func(cfg *middleware.Config) { cfg.Cost = costOf }), []step{
			{do: func(s *scene) { s.ledger.PeekFault = errEngine }, as: costing(0), want: 200, fields: fields{"Tallystick-Degraded": "?1", "RateLimit": ""}},
		}},
		{"a call that has ended holds no place", byCounter(func(cfg *middleware.Config) { cfg.Exact.InFlight = 1 }), []step{
			{times: 9, passes: 5}, {as: from("203.0.113.2"), times: 9, passes: 5},
		}},
		{"an upgrade is not held to the smaller tier", byCounter(func(cfg *middleware.Config) {
			cfg.Tiers, cfg.Identity = map[string][]middleware.Limit{"pro": {fixed(8, time.Minute)}}, byCustomer
		}), []step{
			{as: customer("a"), times: 9, passes: 5}, {as: customer("a"), want: 429, keep: "told"},
			{as: with("X-Customer", "a", "X-Tier", "pro"), show: "told", times: 9, passes: 3},
		}},
		{"the mark in the token is no limit of the policy", byCounter(), []step{
			{want: 200, fields: fields{"RateLimit-Policy": `"contact";q=5;w=60`, "RateLimit": `"contact";r=4;t=60`, middleware.TokenHeader: anything}},
		}},
		{"keys are hashed and apart", byCounter(), []step{
			{want: 200}, {as: from("203.0.113.2"), want: 200}, {as: from("2001:db8::1"), want: 200},
			{as: from("2001:db8::2"), want: 200, see: all{func(s *scene) { // of the same /64
				require.Len(s, s.ledger.Keys, 3)
				for key := range s.ledger.Keys {
					require.NotContains(s, key, "203")
					require.LessOrEqual(s, len(key), exact.MaxKey)
				}
			}}},
		}},
		{"early data is refused", byCounter(), []step{{as: with("Early-Data", "1"), want: 425, see: all{passed(0), calls(0)}}}},
		{"early data is a request like others without a counter", limiting(), []step{{as: with("Early-Data", "1"), want: 200}}},
		{"a refusal of a clock that was hours ahead is forgotten", byCounter(func(cfg *middleware.Config) {
			now := cfg.Now
			cfg.Now = func() time.Time { return now().Add(ahead) }
		}), []step{
			{do: func(*scene) { ahead = 3 * time.Hour }, times: 5, want: 200}, {want: 429, keep: "told"},
			{do: func(*scene) { ahead = 0 }, want: 429, see: all{waitsAtMost(2*time.Minute + 12*time.Second)}},
			{on: 1, show: "told", want: 429, see: all{waitsAtMost(2*time.Minute + 12*time.Second)}},
			{on: 2, show: "told told", want: 429, see: all{waitsAtMost(2*time.Minute + 12*time.Second)}},
		}},
		// A counter that repeats a refusal does not say how the limits stand: nor does what is remembered of it.
		{"a refusal without a limit names none", byCounter(func(cfg *middleware.Config) { cfg.Exact.Counter = silent }), []step{
			{want: 429, keep: "told"},
			{want: 429, fields: fields{"RateLimit": ""}, see: all{func(s *scene) { require.Empty(s, s.decision().Limits()) }}},
			{on: 1, show: "told", want: 429, fields: fields{"RateLimit": ""}},
		}},
		{"the stamp of a refusal is id, age, seconds, hash and limit 0, as docs/wire.md says", byCounter(ofAMonth), []step{
			{as: costing(1000), want: 200},
			{after: 1234567 * time.Microsecond, want: 429, keep: "told", see: all{func(s *scene) {
				claims := claimsIn(s, s.tokens["told"])
				require.EqualValues(s, 1728000020, claims.Exp)
				require.Equal(s, []int64{7759220, 18765433, 863999, 36848}, claims.T)
			}}},
		}},
		{"an account that was deleted is heard of", byCounter(ofAMonth), []step{
			{as: costing(1000), want: 200}, {want: 429, keep: "told"},
			{do: func(s *scene) { s.ledger.Forget() }, show: "told", want: 429}, {on: 1, show: "told", want: 429},
			{after: believed, show: "told", want: 200}, {want: 200}, {on: 1, show: "told", want: 200}, {on: 1, want: 200},
		}},
		{"an outage of two seconds sends no client away for a day", byCounter(func(cfg *middleware.Config) {
			cfg.Limits = []middleware.Limit{{Name: "day", Quota: 4, Window: 24 * time.Hour}}
			cfg.Exact.Outage, cfg.Instances = middleware.FailOpen, 2
		}), []step{
			{do: fails(onFire), times: 2, want: 200},
			{want: 429, fields: fields{"RateLimit": `"day";r=0;t=60`}, see: all{waitsAtMost(66 * time.Second)}},
			{after: time.Minute, do: fails(nil), show: latest, want: 200},
		}},
		{"an outage outlives a configuration, and is told once", byCounter(), []step{
			{do: func(s *scene) {
				s.ledger.Fault = onFire
				for range 5 {
					breaks(s.site, s.now)
					becomes()(s)
				}
			}, see: all{tells("counter-down", 1)}},
			{do: fails(nil), want: 200}, {do: becomes()}, {after: 10 * time.Second, want: 200, see: all{tells("counter-back", 1)}},
		}},
		// Few requests are enough for an all-clear: the first answer begins the ten seconds.
		{"a quiet site hears the all-clear", byCounter(), []step{
			{do: fails(onFire), times: 5}, {after: time.Second, times: 3, see: all{tells("counter-down", 1)}},
			{after: 2 * time.Minute, do: fails(nil), want: 200, see: all{tells("counter-back", 0)}}, // one answer is none
			{after: -time.Hour, want: 200}, // the clock was wrong
			{after: 9 * time.Second, want: 200, see: all{tells("counter-back", 0)}},
			{after: time.Second, want: 200, see: all{tells("counter-back", 1)}},
		}},
	})
}

func TestExactConfigErrors(t *testing.T) {
	c := new(clock)
	cfg := contact(c)
	cfg.Exact = &middleware.Exact{Contended: 9, Deadline: time.Microsecond, InFlight: -1, PayingTiers: []string{"gold"}}
	cfg.Challenge = &middleware.Challenge{}
	_, err := middleware.New(cfg)
	for _, field := range []string{"Exact.Counter", "Exact.Outage", "Exact.Contended", "Exact.Deadline", "Exact.InFlight", "Exact.PayingTiers[0]", "Challenge"} {
		require.ErrorContains(t, err, field+": ")
	}
	cfg = paid(c, newLedger(c))
	for i := range 9 {
		cfg.Limits = append(cfg.Limits[:i], middleware.Limit{Quota: 5, Window: time.Duration(i+1) * time.Minute})
		if _, err = middleware.New(cfg); i >= 7 {
			require.ErrorContains(t, err, "at most 7")
		}
	}
}

// What only a counter can count: on the wire it is a limit like any other, and in an
// outage a sliding window of the same quota.
func TestExactTrails(t *testing.T) {
	for _, a := range []middleware.Limit{
		{Algorithm: storeless.SlidingLog, Quota: 3, Window: time.Minute}, {Algorithm: storeless.RollingDay, Quota: 3, Window: 24 * time.Hour},
	} {
		l := new(altered)
		answers := func(take func(context.Context, exact.Call) (exact.Verdict, error)) func(*scene) {
			return func(*scene) { l.OnTake = take }
		}
		play(t, []scenario{{a.Algorithm.String(), byCounter(limits(a), func(cfg *middleware.Config) {
			l.Counter = memory.New(0, cfg.Now)
			cfg.Exact.Counter, cfg.Exact.Outage = l, middleware.FailOpen
		}), []step{
			{times: 3, every: a.Window / 10, want: 200}, {want: 429},
			{do: answers(notTaken(errEngine)), want: 429},   // a refusal of the counter is remembered
			{as: from("203.0.113.77"), times: 9, passes: 3}, // the fallback has the quota, and no more
			{do: answers(nil), after: a.Window*7/10 - time.Second, want: 429},
			{after: time.Minute + time.Second, want: 200}, // the first has left: a rolling day counts whole minutes
		}}})
	}
}

func TestExactTrailsWantACounter(t *testing.T) {
	rolling := middleware.Limit{Name: "day", Algorithm: storeless.RollingDay, Quota: 3, Window: 24 * time.Hour}
	requireMistakes(t, contact, []mistake{{"Limits[0].Algorithm", limits(rolling), ": a rolling-day needs an exact counter; SlidingWindow is what comes closest without one\n"}})
	requireMistakes(t, func(c *clock) middleware.Config { return paid(c, memory.New(0, c.Now)) }, []mistake{{`Tiers["pro"]`, func(cfg *middleware.Config) {
		cfg.Limits = []middleware.Limit{{Name: "day", Quota: 3, Window: 24 * time.Hour}}
		cfg.Tiers = map[string][]middleware.Limit{"pro": {rolling}}
	}, ": must have the names, algorithms, windows and zones of Limits, and the same Shadow, in that order; tiers differ in Quota and Burst alone\n"}})
}

// A refusal that is remembered says what the counter's own says of the limit that refuses for
// longest: on the instance that was told, and by its token on another. Nothing is known any more of
// the other limits.
func TestExactRefusalThatIsRememberedNamesItsLimit(t *testing.T) {
	two := []middleware.Limit{{Name: "minute", Quota: 3, Window: time.Minute}, {Name: "day", Quota: 3, Window: 24 * time.Hour}}
	problem := func(t *testing.T, resp *http.Response) string {
		_, rest, _ := strings.Cut(bodyOf(t, resp), `"violated-policies":[`)
		names, _, _ := strings.Cut(rest, "]")
		return names
	}
	for _, tc := range []struct {
		name             string
		limits           []middleware.Limit
		fields           middleware.Fields
		cost             int64
		header           string
		first, then      string // of that header, at first and six seconds later
		violated, repeat string
	}{
		{"one limit", contact(new(clock)).Limits, 0, 1, "RateLimit", `"contact";r=0;t=60`, `"contact";r=0;t=54`, `"contact"`, `"contact"`},
		{"two limits", two, 0, 1, "RateLimit", `"minute";r=0;t=60, "day";r=0;t=86400`, `"day";r=0;t=86394`, `"minute","day"`, `"day"`},
		{"a dear request", contact(new(clock)).Limits, 0, 3, "RateLimit", `"contact";r=2;t=60`, `"contact";r=2;t=54`, `"contact"`, `"contact"`},
		{"X-RateLimit-Remaining", two, middleware.XRateLimitInSeconds, 1, "X-RateLimit-Remaining", "0", "0", `"minute","day"`, `"day"`},
		{"X-RateLimit-Reset", two, middleware.XRateLimitInSeconds, 1, "X-RateLimit-Reset", "86400", "86394", `"minute","day"`, `"day"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, l, cfg := paidRoute()
			for i := range tc.limits {
				tc.limits[i].Algorithm = storeless.FixedWindow
			}
			cfg.Limits, cfg.Fields = tc.limits, tc.fields
			cfg.Cost = func(*http.Request) int64 { return tc.cost }
			h, elsewhere := newSite(t, cfg), newSite(t, cfg)
			var refused *http.Response
			for refused == nil || refused.StatusCode == http.StatusOK {
				refused = send(h)
			}
			require.Equal(t, tc.first, refused.Header.Get(tc.header))
			require.Equal(t, tc.violated, problem(t, refused))
			tok := refused.Header.Get(middleware.TokenHeader)
			calls := l.Count()
			c.Advance(4 * time.Second)
			all := []*http.Response{send(h)}
			if tc.cost == 1 {
				all = append(all, send(elsewhere, showing(tok)))
			}
			c.Advance(2 * time.Second)
			again := send(h)
			require.Equal(t, calls, l.Count(), "no request asks")
			require.Equal(t, tc.then, again.Header.Get(tc.header))
			for _, resp := range append(all, again) {
				requireStatus(t, http.StatusTooManyRequests, resp)
				require.Equal(t, refused.Header.Get("RateLimit-Policy"), resp.Header.Get("RateLimit-Policy"))
				require.Equal(t, refused.Header.Get("X-RateLimit-Limit"), resp.Header.Get("X-RateLimit-Limit"))
				require.NotEmpty(t, resp.Header.Get(tc.header))
				require.Equal(t, tc.repeat, problem(t, resp))
			}
			limits := h.Decisions.Last().Limits()
			require.Len(t, limits, 1)
			require.True(t, limits[0].Blocked)
			require.Equal(t, tc.limits[len(tc.limits)-1].Window, limits[0].Window)
		})
	}
}

// A worker spends the quota that its customer spends by requests.
func TestExactCallIsTheCallOfARequest(t *testing.T) {
	c := new(clock)
	counter := memory.New(0, c.Now)
	cfg := paid(c, counter)
	cfg.Tiers = map[string][]middleware.Limit{"pro": {fixed(9, time.Minute)}}
	customer := pro(middleware.APIKey("c1").For("maps"))
	cfg.Identity = only(customer)
	h := newSite(t, cfg)
	require.Equal(t, 4, admitted(h, 4))
	call, err := h.M.CallFor(customer)
	require.NoError(t, err)
	for range 5 {
		v := kit.Must(counter.Take(t.Context(), call))(t)
		require.True(t, v.Admitted)
	}
	require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
	v := kit.Must(counter.Peek(t.Context(), call))(t)
	require.Zero(t, v.Limits[0].Remaining)

	_, err = h.M.CallFor(middleware.Identity{})
	require.ErrorContains(t, err, "has no account")
	_, err = newLimiter(t, contact(c)).CallFor(customer.For("another product")) // it is counted by the policy that has the counter
	require.EqualError(t, err, `middleware: the policy "contact" has no exact counter: set its Config.Exact, or ask the policy that has one`)
}

// An operator sees what a customer has used, and has it forgotten: on the instance that is asked at
// once, on others and by tokens within ten seconds. No other customer's use is forgotten.
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
			leased := kit.Must(lease.New(cfg.Exact.Counter, lease.Config{}))(t)
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
			d := kit.Must(a.Decide(t.Context(), middleware.Ask{Identity: tc.id, DryRun: true}))(t)
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
	require.ErrorContains(t, m.Reset(t.Context(), middleware.Identity{}), "has no account")
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
		leased := kit.Must(lease.New(engine, lease.Config{}))(t)
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
	require.ErrorContains(t, err, "Exact.Deadline: must be from 1 ms to 10 s, or 0 for the default of the counter, not 1 h")
}

// An unhurried counter names a deadline.
type unhurried struct {
	exact.Counter
	wants time.Duration
}

func (p *unhurried) Deadline() time.Duration { return p.wants }

// believed is for how long a refusal is at most.
const believed = 10 * time.Second

// estimating is a route with a month's quota of 1000: a request says what it is going to
// cost, and what it has cost at last.
func estimating(c *clock, counter exact.Counter) middleware.Config {
	cfg := paid(c, counter)
	ofAMonth(&cfg)
	return cfg
}

func ofAMonth(cfg *middleware.Config) {
	*cfg = metered(*cfg, 1000)
	cfg.Limits[0].Window = 30 * 24 * time.Hour
}

// What was estimated too high on one instance, and is given back there, is refused on the
// others for ten seconds at most: by what they remember, and by what tokens say.
func TestSettledElsewhereIsHeardOf(t *testing.T) {
	for name, change := range map[string]func(*middleware.Config){
		"an address": func(*middleware.Config) {},
		"a tier": func(cfg *middleware.Config) {
			cfg.Tiers, cfg.Identity = map[string][]middleware.Limit{"pro": {cfg.Limits[0]}}, only(pro(middleware.APIKey("customer")))
			cfg.Limits[0].Quota = 5
		},
		"one thing": func(cfg *middleware.Config) {
			cfg.Identity = only(middleware.Principal("customer").For("maps"))
		},
		"five at once": func(cfg *middleware.Config) { cfg.Concurrency = &middleware.Concurrency{Max: 5} },
	} {
		t.Run(name, func(t *testing.T) {
			c := new(clock)
			l := newLedger(c)
			cfg := estimating(c, l)
			change(&cfg)
			begun, finish := make(chan struct{}), make(chan struct{})
			b := newLimiter(t, cfg).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Settle") != "" {
					close(begun)
					<-finish
					settling(t, false)(w, r)
				}
			}))
			a, third := newSite(t, cfg), newSite(t, cfg)
			var wg sync.WaitGroup
			wg.Go(func() { send(b, costing(1000), settles(5)) })
			<-begun
			refused := requireStatus(t, http.StatusTooManyRequests, send(a))
			tok := tokenOf(refused)
			close(finish)
			wg.Wait()

			calls := l.Count()
			for _, after := range []time.Duration{0, 4 * time.Second} {
				c.Advance(after)
				for _, h := range []http.Handler{a, third} {
					resp := requireStatus(t, http.StatusTooManyRequests, send(h, tok))
					wait := retryAfter(t, resp) // with a jitter of a tenth and thirty seconds at most
					require.Less(t, wait-min(wait/10, 30*time.Second)-time.Second, 30*24*time.Hour)
					require.Greater(t, wait, 24*time.Hour, "the true wait")
				}
			}
			require.Equal(t, calls, l.Count(), "without a call")
			c.Advance(believed - 4*time.Second)
			for name, h := range map[string]http.Handler{"that has refused": a, "that has the refund": b, "another": third} {
				require.Equal(t, http.StatusOK, send(h, tok).StatusCode, "%s, by the token of before", name)
				require.Equal(t, http.StatusOK, send(h).StatusCode, name)
			}
		})
	}
}

// estimatingNow is estimating by the clock of a bubble.
func estimatingNow() (*ledger, middleware.Config) {
	l := newLedger(new(clock))
	l.Now = time.Now
	cfg := estimating(new(clock), l)
	cfg.Now = time.Now
	return l, cfg
}

// Many requests of a spent key at once, when the ten seconds are over, are one call: the others
// wait for its answer. If there is room again, all of them are counted.
func TestNoHerdOfASpentKey(t *testing.T) {
	for name, room := range map[string]bool{"spent": false, "given back": true} {
		for _, stamped := range []bool{false, true} {
			kit.RunBubble(t, fmt.Sprintf("%s, known by its token %t", name, stamped), func(t *testing.T) {
				l, cfg := estimatingNow()
				h := newSite(t, cfg)
				require.Equal(t, http.StatusOK, send(h, costing(1000)).StatusCode)
				tok := tokenOf(send(h))
				if stamped {
					h = newSite(t, cfg) // which knows nothing
				}
				time.Sleep(believed)
				if room {
					l.Forget()
				}
				l.Fault = func(context.Context, int) error { time.Sleep(5 * time.Millisecond); return nil }
				before := l.Count()
				began, known := time.Now(), len(h.Decisions.All)
				passed := together(h, 80, tok)
				if room {
					require.Equal(t, 80, passed)
					require.Equal(t, 80, l.Count()-before)
					began := time.Now()
					together(h, 20)
					require.Equal(t, 5*time.Millisecond, time.Since(began), "no request waits any more")
					return
				}
				require.Zero(t, passed)
				for _, d := range h.Decisions.All[known:] {
					require.Equal(t, middleware.OverLimit, d.Reason)
				}
				require.Equal(t, 1, l.Count()-before)
				require.Equal(t, 5*time.Millisecond, time.Since(began))
			})
		}
	}
}

// One that waits for another's answer does so once, and no longer than a call may take:
// a counter that does not answer is an outage for it as for all.
func TestWhoWaitsForAnAnswerHasADeadline(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		l, cfg := estimatingNow()
		cfg.Exact.Deadline = 50 * time.Millisecond
		h := newSite(t, cfg)
		require.Equal(t, http.StatusOK, send(h, costing(1000)).StatusCode)
		require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
		time.Sleep(believed)
		l.Fault = func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		inParallel(20, func(int) { send(h) })
		require.LessOrEqual(t, time.Since(began), 2*cfg.Exact.Deadline)
	})
}

// The clocks of instances, apart by what is permitted, do not have a refusal be believed for
// longer; and by what is not permitted, no refusal is believed that was said in the future.
func TestRefusalsUnderClocksThatAreApart(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, -20 * time.Second, -5 * time.Second, -time.Second, time.Second, 5 * time.Second, 20 * time.Second, time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			c := new(clock)
			l := newLedger(c)
			cfg := estimating(c, l)
			b := newSite(t, cfg)
			cfg.Now = func() time.Time { return c.Now().Add(ahead) }
			a := newSite(t, cfg)
			require.Equal(t, http.StatusOK, send(a, costing(1000)).StatusCode)
			tok := tokenOf(send(a))
			l.Forget()
			if ahead > 5*time.Second {
				require.Equal(t, http.StatusOK, send(b, tok).StatusCode, "at once")
			}
			c.Advance(believed)
			require.Equal(t, http.StatusOK, send(b, tok).StatusCode)
			require.Equal(t, http.StatusOK, send(a, tok).StatusCode)
		})
	}
}

// A refund to another client, on its way together with a refusal, does not have the refusal
// forgotten: a gateway that settles all the time would ask for spent keys with every request.
func TestRefundsOfOthersLeaveARefusalAlone(t *testing.T) {
	c := new(clock)
	l := newLedger(c)
	cfg := estimating(c, l)
	h := newLimiter(t, cfg).Handler(settling(t, false))
	require.Equal(t, http.StatusOK, send(h, costing(1000)).StatusCode)
	l.Fault = func(_ context.Context, call int) error {
		if call == 2 { // the refusal
			send(h, from("203.0.113.77"), costing(10), settles(1))
		}
		return nil
	}
	require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
	before := l.Count()
	require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
	require.Equal(t, before, l.Count())
}

// Threats of exact routes, by their numbers.
func TestThreatsOfExactRoutes(t *testing.T) {
	hang := func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
	// rushed plays a route in a bubble that fails open, with places for eight calls of the default deadline.
	rushed := func(name string, play func(t *testing.T, c *clock, l *ledger, h *site)) {
		kit.RunBubble(t, name, func(t *testing.T) {
			c := new(clock)
			l := newLedger(c)
			cfg := hasty(c, l)
			cfg.Exact.Outage, cfg.Exact.InFlight = middleware.FailOpen, 8
			play(t, c, l, newSite(t, cfg))
		})
	}
	// flood sends a hundred requests at once from this many addresses, and counts the answers by their
	// status.
	flood := func(h http.Handler, addresses int) map[int]int {
		codes, seen := make(chan int, 100), map[int]int{}
		for n := range 100 {
			go func() { codes <- send(h, from(fmt.Sprintf("198.18.0.%d", n%addresses))).StatusCode }()
		}
		for range 100 {
			seen[<-codes]++
		}
		return seen
	}

	t.Run("T32 one busy key is split by the identity", func(t *testing.T) {
		_, l, cfg := paidRoute()
		cfg.Identity = anonymous(16)
		h, _ := limited(t, cfg)
		for n := range 1000 {
			send(h, from(fmt.Sprintf("198.51.%d.%d", n/250, n%250)))
		}
		require.Len(t, l.Keys, 16)
	})

	t.Run("T33 the counter is down, fail open", func(t *testing.T) {
		c, l, cfg := paidRoute()
		l.Fault = onFire
		cfg.Exact.Outage = middleware.FailOpen
		cfg.Instances = 2
		log := logTo(&cfg)
		passed := 0
		for range 2 {
			h, _ := limited(t, cfg)
			passed += admitted(h, 15)
			c.Advance(time.Second)
			passed += admitted(h, 5)
			require.Equal(t, "?1", send(h).Header.Get("Tallystick-Degraded"))
		}
		require.Equal(t, 4, passed, "half of five on each, rounded down; never unlimited")
		require.Equal(t, 2, log.Count("does not answer"), "one line on each instance")
	})

	kit.RunBubble(t, "T34 the counter hangs", func(t *testing.T) {
		c := new(clock)
		l := newLedger(c)
		l.Fault = hang
		cfg := hasty(c, l)
		cfg.Now = time.Now
		h, _ := limited(t, cfg)
		began := time.Now()
		require.Equal(t, http.StatusServiceUnavailable, send(h).StatusCode)
		require.Equal(t, 50*time.Millisecond, time.Since(began), "the deadline, and no second call after it")
		require.Equal(t, 1, l.Count())
		admitted(h, 100)
		require.Equal(t, 250*time.Millisecond, time.Since(began), "five deadlines in all")
	})

	rushed("T34 a flood at a counter that hangs is an outage after a second", func(t *testing.T, c *clock, l *ledger, h *site) {
		l.Fault = hang
		require.Equal(t, map[int]int{503: 100}, flood(h, 100), "it may be slow")
		c.Advance(600 * time.Millisecond)
		require.Equal(t, map[int]int{503: 100}, flood(h, 100))
		l.Fault = nil
		require.Equal(t, http.StatusOK, send(h, from("198.18.2.2")).StatusCode)
		c.Advance(600 * time.Millisecond)
		l.Fault = hang
		require.Equal(t, map[int]int{503: 100}, flood(h, 100), "it has answered")
		c.Advance(600 * time.Millisecond)
		require.Equal(t, map[int]int{503: 100}, flood(h, 100))
		require.NotContains(t, h.Log.String(), "does not answer")
		c.Advance(600 * time.Millisecond)
		require.Equal(t, map[int]int{200: 6, 503: 94}, flood(h, 100), "burst by burst, it has answered no call for a second")
		for range 6 { // one call of each is a probe at most, and five must fail
			flood(h, 100)
		}
		require.Contains(t, h.Log.String(), "does not answer")
	})

	rushed("T34 a counter that is busy is an outage after a second of silence", func(t *testing.T, c *clock, l *ledger, h *site) {
		l.Fault = func(context.Context, int) error { return exact.ErrBusy }
		for range 20 {
			require.Equal(t, http.StatusServiceUnavailable, send(h).StatusCode)
		}
		require.NotContains(t, h.Log.String(), "does not answer")
		c.Advance(time.Second)
		require.Equal(t, http.StatusOK, send(h).StatusCode)
	})

	rushed("T34 calls that are slow while others are answered are no outage", func(t *testing.T, _ *clock, l *ledger, h *site) {
		l.Fault = func(ctx context.Context, n int) error {
			if n%3 != 0 {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		for n := range 5 {
			slow := make(chan *http.Response, 2)
			for i := range 2 {
				go func() { slow <- send(h, from(fmt.Sprintf("198.18.%d.%d", n, i))) }()
			}
			synctest.Wait()
			require.Empty(t, send(h, from(fmt.Sprintf("198.18.%d.2", n))).Header.Get("Tallystick-Degraded"))
			for range 2 {
				resp := requireStatus(t, http.StatusOK, <-slow)
				require.Equal(t, "?1", resp.Header.Get("Tallystick-Degraded"), "the policy's choice, for this one")
			}
		}
		require.NotContains(t, h.Log.String(), "does not answer")
	})

	down := step{want: 503, fields: fields{"Tallystick-Degraded": "?1", "Retry-After": anything}, see: all{says("temporary-reduced-capacity")}}
	silent := func(s *scene) {
		require.NotContains(s, s.site.Log.String(), "does not answer", "they may be of one moment")
	}
	play(t, []scenario{
		{"T33 the counter is down, fail closed", byCounter(), []step{
			{do: fails(onFire)}, down, down, down, down, down, {see: all{silent}}, {after: time.Second}, down,
			{times: 14, want: 503, fields: down.fields, see: all{says("temporary-reduced-capacity"), passed(0), tells("counter-down", 1), calls(12)}}, // five calls and one a second later, each repeated once; then the breaker is open
			{do: fails(nil), want: 503}, {after: time.Second, times: 9, passes: 5}, // recovers by itself
			{want: 429, fields: fields{"Tallystick-Degraded": ""}, see: all{tells("counter-back", 0)}}, // that it does is told ten seconds later
			{after: 10 * time.Second, want: 429, see: all{tells("counter-back", 1)}},
		}},
		{"T34 a client that hangs up is no outage", byCounter(), []step{
			{do: fails(func(ctx context.Context, _ int) error { return ctx.Err() }), as: hungUp, times: 20, passes: 5, see: all{charged(5)}},
			{as: from("203.0.113.2"), want: 200},
		}},
		{"T35 the herd meets a half-open breaker", byCounter(), []step{
			{do: fails(onFire), times: 5}, {after: time.Second, times: 3, see: all{calls(12)}},
			{after: time.Second, times: 1000, see: all{func(s *scene) { require.LessOrEqual(s, s.ledger.Count()-12, 2, "one probe, repeated once") }}},
		}},
		{"T38 a failing handler is charged", byCounter().serving(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }), []step{
			{times: 5, want: 401}, {want: 429},
		}},
		{"T40 a lost answer is charged once", byCounter(), []step{
			{do: func(s *scene) { s.ledger.Lost = func(call int) bool { return call%2 == 1 } }, times: 5, want: 200, see: all{charged(5), calls(10), func(s *scene) {
				for i := 0; i < 10; i += 2 {
					require.Equal(s, s.ledger.Ids[i], s.ledger.Ids[i+1])
				}
				require.NotEqual(s, s.ledger.Ids[0], s.ledger.Ids[2], "fresh for each request")
			}}},
		}},
		{"T40 a call that was certainly not counted is not repeated", byCounter(), []step{
			{do: fails(func(context.Context, int) error { return errors.Join(exact.ErrNotCounted, errEngine) }), want: 503, see: all{calls(1)}},
		}},
		{"T40 an Idempotency-Key buys nothing", byCounter(), []step{{as: with("Idempotency-Key", "mine"), times: 9, passes: 5}}},
	})
}

// Load that does not end is told of once a minute, with its cause, and in the Stats; and no
// longer when it has ended. It is no outage.
func TestLoadThatDoesNotEndIsTold(t *testing.T) {
	for because, err := range map[string]error{
		"contended": exact.ErrContended,
		"busy":      exact.ErrBusy,
	} {
		for name, leased := range map[string]bool{"a call": false, "a lease": true} {
			t.Run(because+", "+name, func(t *testing.T) {
				c, l, cfg := paidRoute()
				cfg.Limits[0].Quota = 1 << 20
				if leased {
					cfg.Concurrency = &middleware.Concurrency{Max: 5}
				}
				h := newSite(t, cfg)
				asks := func(status, seconds int) {
					refused := 0
					for range 4 * seconds {
						if send(h).StatusCode == http.StatusServiceUnavailable {
							refused++
						}
						c.Advance(250 * time.Millisecond)
					}
					if status == http.StatusOK {
						require.Zero(t, refused)
					} else {
						require.GreaterOrEqual(t, refused, 3*seconds)
					}
				}
				asks(http.StatusOK, 10)
				l.Fault = func(_ context.Context, call int) error {
					if call%4 == 0 && because == "busy" { // answered at no time it would be an outage
						return nil
					}
					return fmt.Errorf("%w: the table is throttled", err)
				}
				asks(http.StatusServiceUnavailable, 5)
				require.Empty(t, h.Log.Lines(), "it may be a rush")
				require.False(t, h.M.Stats().Counter.Refusing)
				asks(http.StatusServiceUnavailable, 10)
				require.True(t, h.M.Stats().Counter.Refusing)
				require.False(t, h.M.Stats().Counter.Down)
				require.Equal(t, 1, len(h.Log.Lines()))
				require.Contains(t, h.Log.String(), "code=counter-refuses because="+because+" error=")
				require.Contains(t, h.Log.String(), "the table is throttled")
				asks(http.StatusServiceUnavailable, 120)
				require.Equal(t, 3, h.Log.Count("code=counter-refuses"), "one a minute")
				require.Equal(t, 3, len(h.Log.Lines()))
				l.Fault = nil
				asks(http.StatusOK, 7)
				require.False(t, h.M.Stats().Counter.Refusing)
				require.Equal(t, 3, len(h.Log.Lines()))
			})
		}
	}
}

// A counter that has no room is told of at the first customer that it refuses, and once a minute, with
// what it says: others pass, so that it need never be most of them. It is no outage.
func TestAFullCounterIsTold(t *testing.T) {
	for name, leased := range map[string]bool{"a call": false, "a lease": true} {
		t.Run(name, func(t *testing.T) {
			c, l, cfg := paidRoute()
			cfg.Limits[0].Quota = 1 << 20
			if leased {
				cfg.Concurrency = &middleware.Concurrency{Max: 5}
			}
			h := newSite(t, cfg)
			for second := range 130 {
				for n := range 10 {
					l.Fault = nil
					if n == 9 && second > 5 {
						l.Fault = func(context.Context, int) error { return fmt.Errorf("%w: no room on the disk", exact.ErrFull) }
					}
					resp := send(h)
					require.Equal(t, l.Fault != nil, resp.StatusCode == http.StatusServiceUnavailable)
				}
				require.Equal(t, (second+54)/60, len(h.Log.Lines()), second)
				c.Advance(time.Second)
			}
			for _, line := range h.Log.Lines() {
				require.Contains(t, line, "code=counter-full")
				require.Contains(t, line, "no room on the disk")
			}
			require.False(t, h.M.Stats().Counter.Refusing)
			require.False(t, h.M.Stats().Counter.Down)
		})
	}
}

// A rush for five seconds, however large, and a third of calls that meet load all the time are not told of: nor is an outage
// as load, see TestACounterThatComesAndGoes.
func TestLoadThatIsNotTold(t *testing.T) {
	for name, fails := range map[string]func(second, n int) error{
		"a rush": func(second, n int) error {
			if second%20 >= 5 || n == 0 {
				return nil
			}
			return exact.ErrBusy
		},
		"every third": func(_, n int) error {
			if n%3 == 0 {
				return exact.ErrBusy
			}
			return nil
		},
		"half": func(_, n int) error {
			if n%2 == 0 {
				return exact.ErrContended
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, l, cfg := paidRoute()
			cfg.Limits[0].Quota = 1 << 20
			h := newSite(t, cfg)
			for second := range 60 {
				requests := 6
				if fails(second, 1) != nil {
					requests = 60
				}
				for n := range requests {
					l.Fault = func(context.Context, int) error { return fails(second, n) }
					send(h)
				}
				c.Advance(time.Second)
				require.False(t, h.M.Stats().Counter.Refusing)
			}
			require.Empty(t, h.Log.Lines())
		})
	}
}

// A client that hammers its own key, so that its calls lose every race for it, has neither the
// fallback nor an alarm of an outage, however long it goes on: unless the program has chosen to be
// open by name. Then it has the fallback's quota, and no such alarm either. Where no other client
// asks, the log calls it load that does not end.
func TestAHammeredKeyIsNoOutage(t *testing.T) {
	for _, tc := range []struct {
		outage, contended middleware.Outage
		admitted, refused int // of 40
		status            int // of the refused
	}{
		{middleware.FailOpen, 0, 0, 40, http.StatusServiceUnavailable},
		{middleware.FailOpen, middleware.FailClosed, 0, 40, http.StatusServiceUnavailable},
		{middleware.FailOpen, middleware.FailOpen, 2, 38, http.StatusTooManyRequests},
		{middleware.FailClosed, middleware.FailOpen, 2, 38, http.StatusTooManyRequests},
		{middleware.FailClosed, 0, 0, 40, http.StatusServiceUnavailable},
	} {
		t.Run(fmt.Sprintf("outage %d, contended %d", tc.outage, tc.contended), func(t *testing.T) {
			c, l, cfg := paidRoute()
			cfg.Limits = []middleware.Limit{{Name: "day", Quota: 4, Window: 24 * time.Hour}}
			cfg.Exact.Outage, cfg.Exact.Contended, cfg.Instances = tc.outage, tc.contended, 2
			h := newSite(t, cfg)
			l.Fault = func(context.Context, int) error { return fmt.Errorf("%w: a race", exact.ErrContended) }
			admitted, refused := 0, 0
			for range 40 { // for ten seconds: longer than any silence that is an outage
				resp := send(h)
				open := tc.contended == middleware.FailOpen
				require.Equal(t, open, resp.Header.Get("Tallystick-Degraded") != "")
				switch resp.StatusCode {
				case http.StatusOK:
					admitted++
				case tc.status:
					refused++
				}
				c.Advance(250 * time.Millisecond)
			}
			require.Equal(t, tc.admitted, admitted, "the fallback's quota, where it is open by name")
			require.Equal(t, tc.refused, refused)
			require.Equal(t, 40, l.Count(), "no breaker opens")
			require.Equal(t, []string{"counter-refuses"}, codesIn(h.Log.Lines()), "no alarm of an outage")
			l.Fault = nil
			require.Equal(t, http.StatusOK, send(h).StatusCode, "the counter decides, and has charged nothing")
		})
	}
}

// A counter that comes and goes: the log says that it is well after ten quiet seconds alone, and tells of each outage
// that comes after it has said so.
func TestACounterThatComesAndGoes(t *testing.T) {
	const down, back = "counter-down", "counter-back"
	for _, tc := range []struct {
		name   string
		phases []int // seconds: down, up, down, ...
		told   []string
		again  int // of the alarms
	}{
		{"back for a moment", []int{2, 3, 60}, []string{down}, 0},
		{"six times", []int{2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 20}, []string{down, back}, 0},
		{"back for longer", []int{2, 12, 120}, []string{down, back, down}, 1},
		{"and again, within the minute", []int{2, 12, 2, 12, 2, 12, 60}, []string{down, back, down, back, down, back, down}, 3},
		{"an hour later", []int{2, 3600, 2, 20}, []string{down, back, down, back}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, l, cfg := paidRoute()
			cfg.Limits[0].Quota = 1 << 20
			h := newSite(t, cfg)
			for i, seconds := range tc.phases {
				l.Fault = nil
				if i%2 == 0 {
					l.Fault = onFire
				}
				pause := max(50*time.Millisecond, time.Duration(seconds)*time.Second/3600) // of an hour a second
				for range time.Duration(seconds) * time.Second / pause {
					send(h)
					c.Advance(pause)
				}
			}
			told := slices.DeleteFunc(codesIn(h.Log.Lines()), func(code string) bool { return code == "counter-failed" })
			require.Equal(t, tc.told, told)
			require.Equal(t, tc.again, h.Log.Count("again=true"))
			require.LessOrEqual(t, h.Log.Count(down), 6)
		})
	}
}

// A counter that is full of live keys sends a newcomer away for as long as it says, an hour at most, and for a moment
// where it does not say. Over HTTP it says the same.
func TestAFullCounterSaysWhenToComeAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		wait     time.Duration
		from, to int
	}{
		"it does not say": {0, 1, 1},
		"some minutes":    {599 * time.Second, 599, 599 + 30},
		"a day":           {24 * time.Hour, 3600, 3630},
	} {
		for way, leased := range map[string]bool{"a call": false, "a lease": true} {
			t.Run(name+", "+way, func(t *testing.T) {
				_, l, cfg := paidRoute()
				cfg.Exact.Counter = &altered{Counter: l, OnTake: func(context.Context, exact.Call) (v exact.Verdict, err error) {
					v.Wait = tc.wait
					return v, exact.ErrFull
				}}
				if leased {
					cfg.Concurrency = &middleware.Concurrency{Max: 5}
				}
				resp := requireStatus(t, http.StatusServiceUnavailable, send(newSite(t, cfg)))
				seconds := kit.Must(strconv.Atoi(resp.Header.Get("Retry-After")))(t)
				require.GreaterOrEqual(t, seconds, tc.from)
				require.LessOrEqual(t, seconds, tc.to)
			})
		}
	}
}
