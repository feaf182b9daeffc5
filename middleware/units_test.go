// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/lease"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/truth"
	"github.com/tallystick/tallystick/storeless"
)

// inTokens gives a policy a limit of requests and one of tokens. X-Tokens says how many tokens a request costs.
func inTokens(cfg middleware.Config) middleware.Config {
	cfg.Limits = []middleware.Limit{
		{Name: "requests", Quota: 3, Window: time.Minute, Algorithm: middleware.FixedWindow},
		{Name: "tokens", Quota: 100, Window: time.Minute, Algorithm: middleware.FixedWindow},
	}
	cfg.Units = map[string]middleware.Unit{"tokens": {Limits: []string{"tokens"}, Cost: func(r *http.Request) int64 {
		n, _ := strconv.ParseInt(r.Header.Get("X-Tokens"), 10, 64)
		return n
	}}}
	return cfg
}

func inputs(n int64) option { return with("X-Tokens", strconv.FormatInt(n, 10)) }

// unitsLeft returns what is left of each limit, by a request that peeks.
func unitsLeft(t testing.TB, m *middleware.Middleware, options ...option) (left []int64) {
	t.Helper()
	send(m.HandlerCost(0, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		d, _ := middleware.FromContext(r.Context())
		for _, l := range d.Limits() {
			left = append(left, l.Remaining)
		}
	})), options...)
	return left
}

// carriers are how a client carries what it has used.
var carriers = map[string]func(*http.Response) option{
	"field":  tokenOf,
	"cookie": func(resp *http.Response) option { return showingCookie(cookieIn(resp).Value) },
	"none":   func(*http.Response) option { return func(*http.Request) {} },
}

// One decision charges each limit what its unit costs, or none: by whatever carrier, on a counter, and in its outage.
func TestUnits(t *testing.T) {
	c := new(clock)
	failing := func(counter exact.Counter) middleware.Config {
		cfg := paid(c, counter)
		cfg.Exact.Outage = middleware.FailOpen
		return cfg
	}
	for name, cfg := range map[string]middleware.Config{
		"token policy": contact(c),
		"exact":        paid(c, memory.New(0, c.Now)),
		"an outage":    failing(&altered{Counter: memory.New(0, c.Now), OnTake: notTaken(errEngine)}),
		"each proof":   challenging(c, middleware.WhenExhausted),
	} {
		for carrier, carry := range carriers {
			t.Run(name+"/"+carrier, func(t *testing.T) {
				m := newLimiter(t, inTokens(cfg))
				h, as := m.Handler(new(spy)), from(fmt.Sprintf("203.0.113.%d", len(name)*3+len(carrier)))
				resp := requireStatus(t, 200, send(h, as, inputs(60)))
				require.Equal(t, `"requests";q=3;w=60, "tokens";q=100;w=60;qu="tokens"`, resp.Header.Get("RateLimit-Policy"))
				require.Contains(t, resp.Header.Get("RateLimit"), `"requests";r=2`)
				require.Contains(t, resp.Header.Get("RateLimit"), `"tokens";r=40`)
				refused := requireStatus(t, 429, send(h, as, carry(resp), inputs(41)))
				require.Contains(t, bodyOf(t, refused), `"violated-policies":["tokens"]`)
				requireStatus(t, 403, send(h, as, carry(resp), inputs(101)))
				resp = requireStatus(t, 200, send(h, as, carry(resp), inputs(40)))
				resp = requireStatus(t, 200, send(h, as, carry(resp), inputs(0)))
				refused = requireStatus(t, 429, send(h, as, carry(resp), inputs(0)))
				require.Contains(t, bodyOf(t, refused), `"violated-policies":["requests"]`)
				c.Advance(time.Minute)
				requireStatus(t, 500, send(h, as, inputs(-1)))
			})
		}
	}
}

// Settle is about the limits of the units that it names, each once, and Refund about those that are left.
func TestSettleUnits(t *testing.T) {
	c := new(clock)
	for name, cfg := range map[string]middleware.Config{
		"token policy": contact(c),
		"exact":        paid(c, memory.New(0, c.Now)),
		"leased":       paid(c, leased(t, memory.New(0, c.Now), c)),
		"no memory": func() middleware.Config {
			cfg := contact(c)
			cfg.InsecureNoMemory = true
			return cfg
		}(),
	} {
		for i, test := range []struct {
			do   func(w http.ResponseWriter, r *http.Request) []error
			left []int64
			errs []string
		}{
			{func(_ http.ResponseWriter, r *http.Request) []error {
				return []error{middleware.Settle(r, 70, "tokens"), middleware.Settle(r, 1, "tokens"), middleware.Settle(r, 1, "tokens", ""), middleware.Settle(r, 0)}
			}, []int64{3, 30}, []string{"", "not charged", "not charged", ""}},
			{func(_ http.ResponseWriter, r *http.Request) []error {
				return []error{middleware.Settle(r, 10, "tokens"), middleware.Settle(r, 2), middleware.Settle(r, 1, "bytes"), middleware.Settle(r, 1, " ")}
			}, []int64{1, 90}, []string{"", "", `no unit "bytes"`, `no unit " "`}},
			{func(w http.ResponseWriter, r *http.Request) []error {
				return []error{middleware.Settle(r, 50, "tokens"), middleware.Refund(w, r), middleware.Refund(w, r)}
			}, []int64{3, 50}, []string{"", "", "not charged"}},
			{func(_ http.ResponseWriter, r *http.Request) []error {
				return []error{middleware.Settle(r, 3, "tokens", ""), middleware.Settle(r, -1, "tokens")}
			}, []int64{0, 97}, []string{"", "cannot have cost -1"}},
			{func(_ http.ResponseWriter, r *http.Request) []error {
				return []error{middleware.Settle(r, 140, "tokens")}
			}, []int64{2, 0}, []string{""}},
			{func(w http.ResponseWriter, r *http.Request) []error { return []error{middleware.Refund(w, r)} }, []int64{3, 100}, []string{""}},
		} {
			t.Run(name+"/"+strconv.Itoa(i), func(t *testing.T) {
				m, as := newLimiter(t, inTokens(cfg)), from(fmt.Sprintf("2001:db8:%d::1", i))
				var errs []error
				resp := send(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { errs = test.do(w, r) })), as, inputs(40))
				for i, want := range test.errs {
					if want == "" {
						require.NoError(t, errs[i], i)
					} else {
						require.ErrorContains(t, errs[i], want)
					}
				}
				require.Equal(t, test.left, unitsLeft(t, m, as, tokenOf(resp)))
				for i, limit := range []string{"requests", "tokens"} {
					require.Contains(t, resp.Header.Get("RateLimit"), fmt.Sprintf("%q;r=%d", limit, test.left[i]))
				}
			})
		}
	}
}

// A limit that a request does not count in cannot be settled: a client that can choose 0 is to be seen.
func TestWhatCostsNothingIsNotSettled(t *testing.T) {
	m := newLimiter(t, inTokens(contact(new(clock))))
	var err, rest error
	send(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err, rest = middleware.Settle(r, 50, "tokens"), middleware.Refund(w, r)
	})), inputs(0))
	require.ErrorIs(t, err, exact.ErrNoRefund)
	require.NoError(t, rest)
	require.Equal(t, []int64{3, 100}, unitsLeft(t, m))
}

// One settlement may give back on one limit and charge on another: what comes too late to be given back takes nothing from the charge.
func TestSettledTooLateInOneUnit(t *testing.T) {
	for _, late := range []error{exact.ErrNoRefund, exact.ErrLateRefund} {
		c := new(clock)
		cfg := inTokens(paid(c, &altered{Counter: memory.New(0, c.Now), OnRefund: notRefunded(late)}))
		cfg.Limits = append(cfg.Limits, middleware.Limit{Name: "bytes", Quota: 100, Window: time.Minute, Algorithm: middleware.FixedWindow})
		cfg.Units["bytes"] = middleware.Unit{Limits: []string{"bytes"}, Cost: func(*http.Request) int64 { return 40 }}
		m := newLimiter(t, cfg)
		requireStatus(t, 200, send(m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			require.ErrorIs(t, middleware.Settle(r, 50, "tokens", "bytes"), late)
			require.ErrorContains(t, middleware.Settle(r, 50, "tokens", "bytes"), "not charged")
		})), inputs(60)))
		require.Equal(t, []int64{2, 40, 50}, unitsLeft(t, m))
	}
}

// A refusal that is remembered, here or in a token, is about the limit that refuses for longest and what the request costs on that.
func TestRefusalsOfUnitsAreRemembered(t *testing.T) {
	c := new(clock)
	calls := 0
	counter := memory.New(0, c.Now)
	asked := &altered{Counter: counter, OnTake: func(ctx context.Context, call exact.Call) (exact.Verdict, error) {
		calls++
		return counter.Take(ctx, call)
	}}
	cfg := inTokens(paid(c, asked))
	cfg.Limits[0].Quota = 10
	here, elsewhere := newLimiter(t, cfg).Handler(new(spy)), newLimiter(t, cfg).Handler(new(spy))
	requireStatus(t, 200, send(here, inputs(100)))
	refused := requireStatus(t, 429, send(here, inputs(1)))
	stamp := refused.Header.Get(middleware.TokenHeader)
	require.NotEmpty(t, stamp)
	before := calls
	for _, h := range []http.Handler{here, elsewhere} {
		requireStatus(t, 429, send(h, showing(stamp), inputs(1)))
		requireStatus(t, 429, send(h, showing(stamp), inputs(30)))
		require.Equal(t, before, calls, "no request asks")
		requireStatus(t, 200, send(h, showing(stamp), inputs(0)))
		before = calls
	}
	for range 7 {
		send(here, inputs(0))
	}
	before = calls
	requireStatus(t, 429, send(here, inputs(0)))
	requireStatus(t, 429, send(here, inputs(0)))
	require.Equal(t, before+1, calls)
}

// A request that costs nothing in any unit peeks, and one that is too dear in a unit is told with that.
func TestUnitsAtTheEdges(t *testing.T) {
	c := new(clock)
	for _, cfg := range []middleware.Config{contact(c), paid(c, memory.New(0, c.Now))} {
		cfg = inTokens(cfg)
		cfg.Units["requests"] = middleware.Unit{Limits: []string{"requests"}, Cost: cfg.Units["tokens"].Cost}
		log := logTo(&cfg)
		m := newLimiter(t, cfg)
		h := m.Handler(new(spy))
		require.Equal(t, 10, admitted(h, 10, inputs(0)))
		require.Equal(t, []int64{3, 100}, unitsLeft(t, m))
		require.Equal(t, 1, admitted(h, 3, inputs(2)))
		requireStatus(t, 403, send(h, inputs(4)))
		require.Contains(t, log.String(), "code=cost-above-quota cost=4 largest=3 tier=\"\" unit=requests")
		m.HandlerCost(1000, h) // which is no cost of these limits
		require.NotContains(t, log.String(), "cost=1000")
	}
}

// What an inner policy refuses comes back in all units, what a shadow would refuse is not charged, and by outcome each counts its own.
func TestUnitsOfOtherPolicies(t *testing.T) {
	c := new(clock)
	outer, inner := inTokens(contact(c)), contact(c)
	outer.Policy, inner.Limits[0].Quota = "outer", 1
	m := newLimiter(t, outer)
	h := m.Handler(newLimiter(t, inner).Handler(new(spy)))
	requireStatus(t, 200, send(h, inputs(30)))
	requireStatus(t, 429, send(h, inputs(30)))
	require.Equal(t, []int64{2, 70}, unitsLeft(t, m))
	refusing := newLimiter(t, inner).Handler(new(spy))
	send(refusing)
	h = m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, middleware.Settle(r, 10, "tokens"))
		refusing.ServeHTTP(w, r)
	}))
	requireStatus(t, 429, send(h, inputs(30)))
	require.Equal(t, []int64{2, 60}, unitsLeft(t, m), "what is settled stays as it is, and the rest comes back")

	shadowed := inTokens(contact(c))
	shadowed.Limits[1].Shadow = true
	m = newLimiter(t, shadowed)
	h = m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { require.NoError(t, middleware.Refund(w, r)) }))
	require.Equal(t, 10, admitted(h, 10, inputs(101)))
	require.Equal(t, []int64{3, 100}, unitsLeft(t, m))

	late := inTokens(contact(c))
	late.Limits = append(late.Limits, middleware.Limit{Name: "failures", Quota: 2, Window: time.Minute, Algorithm: middleware.FixedWindow})
	late.ByOutcome = &middleware.ByOutcome{Limits: []string{"failures"}, Free: []int{200}}
	m = newLimiter(t, late)
	h = m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, middleware.Settle(r, 5, "tokens"))
		w.WriteHeader(401)
	}))
	requireStatus(t, 401, send(h, inputs(30)))
	require.Equal(t, []int64{2, 95, 1}, unitsLeft(t, m))
	h = m.Handler(new(spy))
	requireStatus(t, 200, send(h, inputs(30)))
	require.Equal(t, []int64{1, 65, 1}, unitsLeft(t, m))
}

// Peers hear of each limit in its unit.
func TestPeersCountUnits(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		cfg := inTokens(anHour(100))
		cfg.Limits[0].Quota, cfg.Limits[1].Quota = 50, 1000
		f := newPeering(t, 3, cfg)
		requireStatus(t, 200, send(f.sites[0], inputs(300)))
		f.settles()
		require.Equal(t, []int64{49, 700}, unitsLeft(t, f.sites[0].M))
		require.Equal(t, []int64{50, 700}, unitsLeft(t, f.sites[1].M), "one request is within the slack")
		requireStatus(t, 429, send(f.sites[1], inputs(701)))
		requireStatus(t, 200, send(f.sites[2], inputs(700)))
		f.settles()
		requireStatus(t, 429, send(f.sites[0], inputs(1)))
		requireStatus(t, 200, send(f.sites[0], inputs(0)))
	})
}

// As many requests wait for peers as the limits that they count in have room for.
func TestPeersWaitForUnits(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		cfg := inTokens(anHour(100))
		cfg.Limits[0].Quota = 9
		f := newPeering(t, 2, cfg)
		requireStatus(t, 200, send(f.sites[0], inputs(100)))
		f.settles()
		f.deaf.Store(true)
		began, atOnce := time.Now(), atomic.Int64{}
		inParallel(20, func(int) {
			if send(f.sites[0], inputs(0)).StatusCode == http.StatusServiceUnavailable && time.Since(began) == 0 {
				atOnce.Add(1)
			}
		})
		require.EqualValues(t, 20-2-6, atOnce.Load(), "two are admitted, and six have room")
	})
}

// Outside of HTTP the caller names the costs.
func TestAskForUnits(t *testing.T) {
	m := newLimiter(t, inTokens(contact(new(clock))))
	ask := middleware.Ask{Identity: middleware.Principal("p"), Costs: map[string]int64{"tokens": 60}}
	a := decided(t, m, ask)
	require.True(t, a.Allowed)
	limits := a.Limits()
	require.Equal(t, []any{"", int64(1), "tokens", int64(60)}, []any{limits[0].Unit, limits[0].Cost, limits[1].Unit, limits[1].Cost})
	require.NoError(t, a.Settle(20, "tokens"))
	ask.Tokens = []string{a.Token()}
	ask.DryRun = true
	require.EqualValues(t, 80, decided(t, m, ask).Limits()[1].Remaining)
	ask.DryRun, ask.Costs = false, nil
	require.EqualValues(t, 79, decided(t, m, ask).Limits()[1].Remaining, "1, where nothing is said")
	for _, costs := range []map[string]int64{{"bytes": 1}, {"tokens": -1}} {
		ask.Costs = costs
		_, err := m.Decide(t.Context(), ask)
		require.ErrorContains(t, err, "must be 0 and more, of the policy's units")
	}
}

func TestUnitsMistakes(t *testing.T) {
	cfg := inTokens(contact(new(clock)))
	cfg.ByOutcome = &middleware.ByOutcome{Limits: []string{"tokens"}}
	cfg.Units["Bytes"] = middleware.Unit{}
	cfg.Units["words"] = middleware.Unit{Limits: []string{"tokens", "letters", "requests", "requests"}}
	_, err := middleware.New(cfg)
	var problems []string
	for p := range storeless.ConfigErrors(err) {
		problems = append(problems, p.Error())
	}
	require.Equal(t, []string{
		`Units["Bytes"]: must be named by 1 to 48 of a-z, 0-9 and -`,
		`Units["Bytes"]: must name the Limits that count it`,
		`Units["tokens"]: has the limit "tokens", which ByOutcome has too; what counts by outcome counts Cost`,
		`Units["words"]: has the limit "tokens", which Units["tokens"] has too; a limit counts one unit`,
		`Units["words"]: has the limit "letters", which is none of requests, tokens`,
		`Units["words"]: has the limit "requests" twice`,
	}, problems)
}

// A page that checks first asks about the cost that Config.Cost would give; of a unit the request may cost as little as 1.
func TestAPageAsksAboutNoUnit(t *testing.T) {
	for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.EveryRequest} {
		cfg := inTokens(challenging(new(clock), mode))
		cfg.Challenge.Path, cfg.Limits[0].Quota, cfg.Limits[1].Quota = "/tally/", 20, 4
		m := newLimiter(t, cfg)
		ask := func(file string) *http.Response {
			return send(m.Endpoints(), func(r *http.Request) {
				r.Method = http.MethodGet
				r.URL.Path, r.URL.RawQuery, _ = strings.Cut("/tally/"+file, "?")
			})
		}
		require.Contains(t, bodyOf(t, requireStatus(t, 200, ask("challenge?cost=5"))), fmt.Sprintf(`{"needed":%t,`, mode == middleware.EveryRequest))
		if mode == middleware.EveryRequest {
			continue
		}
		requireStatus(t, 200, send(m.HandlerCost(5, new(spy)), inputs(4)))
		require.Contains(t, bodyOf(t, requireStatus(t, 200, ask("challenge?cost=5"))), `{"needed":true,"left":0,`)
		requireStatus(t, 404, ask("ticket?cost=5")) // more than the room ever has
		requireStatus(t, 200, ask("ticket?cost=4"))
	}
}

// The bounds are in units, and where peers hear each other a request of a unit may cost the whole quota.
func TestBoundsOfUnits(t *testing.T) {
	cfg := inTokens(contact(new(clock)))
	cfg.Instances = 4
	b := newLimiter(t, cfg).Bounds()
	require.Contains(t, b.String(), "100 tokens in 1 min")
	for _, row := range b.Rows {
		if strings.HasPrefix(row.Client, "drops") {
			require.Equal(t, row.Limit.Quota*4, row.Admitted)
		}
	}
	cfg.Peers = groups(t, 4, cfg.Logger)[0]
	for _, row := range newLimiter(t, cfg).Bounds().Rows {
		if strings.HasPrefix(row.Client, "drops") && row.Unit == "tokens" {
			require.EqualValues(t, 400, row.Admitted)
		}
	}
}

// What costs more of a unit than a pass has is charged to what all of an address share: no bound of Newcomers forgets that.
func TestBoundsOfAUnitThatNoPassHolds(t *testing.T) {
	for day, free := range map[int64]int64{3: 0, 240: 240} { // a pass has 3 tokens of the one, and 10 of the other
		cfg := inTokens(challenging(new(clock), middleware.Newcomers))
		cfg.Limits[1].Quota, cfg.Limits[1].Window = day, 24*time.Hour
		m := newLimiter(t, cfg)
		own := requireStatus(t, 200, send(m.Handler(new(spy)), with(middleware.ProofHeader, solved(t, send(m.Handler(new(spy))))), inputs(1)))
		require.Equal(t, free > 0, send(m.Handler(new(spy)), tokenOf(own), inputs(day)).StatusCode == 200)
		cfg.Challenge.Work = 1 << 29 // a second buys none
		for _, row := range newLimiter(t, cfg).Bounds().Rows {
			if row.Unit == "tokens" && (strings.HasPrefix(row.Client, "drops") || row.Client == "works for 1 s of a core") {
				require.Equal(t, free, row.Admitted, row.Client)
			}
		}
	}
}

// At start the log has the bounds of each limit in its unit: of the base, or of the tier where work defeats a limit.
func TestTheLogHasTheBoundsOfEachLimit(t *testing.T) {
	line := func(cfg middleware.Config) string {
		for _, line := range startingWith(t, cfg) {
			if strings.Contains(line, "code=bounds") {
				return line
			}
		}
		return ""
	}
	cfg := inTokens(contact(new(clock)))
	cfg.Instances = 4
	require.Contains(t, line(cfg), `instances=4 limits="3 in 1 min; 100 tokens in 1 min" echoes="3; 100" drops="12; 400" net48="768; 25,600" remedy=`)

	cfg = contact(new(clock))
	cfg.Challenge = &middleware.Challenge{Mode: middleware.Newcomers}
	cfg.Instances, cfg.Limits = 10, []middleware.Limit{{Quota: 100, Window: 24 * time.Hour}}
	cfg.Tiers = map[string][]middleware.Limit{"small": {{Quota: 1, Window: 24 * time.Hour}}}
	got := line(cfg)
	require.Contains(t, got, "level=WARN")
	require.Contains(t, got, `tier=small limits="1 in 24 h" echoes=1 drops=0 works=`)
	require.Contains(t, got, "a client of the tier small that works for 1 s of a core gets")
}

func leased(t *testing.T, of exact.Counter, c *clock) exact.Counter {
	l := kit.Must(lease.New(of, lease.Config{Instances: 2, Now: c.Now}))(t)
	return l
}

// An account is the oracle of one limit: what the definition admits, of one clock. It shares no arithmetic with the product.
type account struct {
	limit   middleware.Limit
	counted map[int64]int64 // by the number of a window
	owes    int64           // of a bucket, µs, at
	at      int64
	most    int64 // that a settlement may leave owed
}

func (a *account) bucket() truth.Bucket {
	return truth.Bucket{Quota: a.limit.Quota, Window: a.limit.Window.Microseconds(), Burst: a.limit.Burst}
}

func (a *account) window(now int64) int64 { return now / a.limit.Window.Microseconds() }

// room returns what is left.
func (a *account) room(now int64) int64 {
	w := a.limit.Window.Microseconds()
	if a.limit.Burst > 0 {
		a.owes, a.at = max(0, a.owes-(now-a.at)), now
		return max(0, a.limit.Burst*a.bucket().Interval()-a.owes) / a.bucket().Interval()
	}
	before := int64(0)
	if a.limit.Algorithm == storeless.SlidingWindow {
		before = a.counted[a.window(now)-1]
	}
	return max(0, truth.Window{Quota: a.limit.Quota, Length: w}.Room(now%w, before, a.counted[a.window(now)]))
}

// change counts more, or less of what was counted then.
func (a *account) change(now, then, more int64) {
	if a.room(now); a.limit.Burst == 0 {
		if more < 0 {
			now = then
		}
		a.counted[a.window(now)] += more
		return
	}
	interval := a.bucket().Interval()
	if more < 0 {
		a.owes -= min(a.owes, max(0, -more*interval-(now-then)))
	} else {
		a.owes = max(a.owes, min(a.owes+more*interval, a.most))
	}
}

// TestUnitsOracle plays a client whose requests cost something else on each of three limits, and are settled unit by unit, up and
// down, at once or later: each decision and what is left of each limit is what the definition says, by each carrier, on
// instances that know nothing of each other, and on a counter.
func TestUnitsOracle(t *testing.T) {
	steps := 4_000
	if kit.Whole() {
		steps = 250_000
	}
	c := new(clock)
	for name, cfg := range map[string]middleware.Config{
		"field": contact(c), "cookie": contact(c), "none": contact(c), "exact": paid(c, memory.New(0, c.Now)),
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(len(name)), 42))
			limits := []middleware.Limit{
				{Name: "requests", Quota: 20, Window: time.Minute},
				{Name: "tokens", Quota: 60, Window: time.Minute, Algorithm: middleware.TokenBucket, Burst: 30},
				{Name: "day", Quota: 400, Window: 10 * time.Minute, Algorithm: middleware.FixedWindow},
			}
			var costs [3]int64
			price := func(i int) func(*http.Request) int64 { return func(*http.Request) int64 { return costs[i] } }
			cfg.Limits, cfg.Cost = limits, price(0)
			cfg.Units = map[string]middleware.Unit{
				"tokens": {Limits: []string{"tokens"}, Cost: price(1)},
				"bytes":  {Limits: []string{"day"}, Cost: price(2)},
			}
			units := []string{"", "tokens", "bytes"}
			accounts := make([]*account, 3)
			for i, l := range limits {
				accounts[i] = &account{limit: l, counted: map[int64]int64{}, most: 2*60*int64(time.Second/time.Microsecond) + 60*1e6}
				if cfg.Exact != nil {
					accounts[i].most = 366 * 24 * 3600 * 1e6
				}
			}
			grain := time.Millisecond
			if cfg.Exact != nil { // a refusal is remembered until the next whole second
				grain = time.Second
			}
			pass := func(most time.Duration) { c.Advance(time.Duration(rng.Int64N(int64(most/grain)+1)) * grain) }
			var then, now int64
			settle := func(_ http.ResponseWriter, r *http.Request) {
				then = c.Now().UnixMicro()
				if rng.IntN(8) == 0 {
					pass(4 * time.Second)
				}
				now = c.Now().UnixMicro()
				for _, i := range rng.Perm(3)[:rng.IntN(4)] {
					actual := max(0, costs[i]+rng.Int64N(7)-3)
					err := middleware.Settle(r, actual, units[i])
					if costs[i] == 0 {
						require.ErrorIs(t, err, exact.ErrNoRefund)
						continue
					}
					if require.NoError(t, err); actual != costs[i] {
						accounts[i].change(now, then, actual-costs[i])
					}
				}
			}
			var handlers []http.Handler
			for range 2 {
				handlers = append(handlers, newLimiter(t, cfg).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					d, _ := middleware.FromContext(r.Context())
					for i, l := range d.Limits() {
						accounts[i].change(c.Now().UnixMicro(), 0, costs[i])
						require.Equal(t, accounts[i].room(c.Now().UnixMicro()), l.Remaining, l.Name)
					}
					settle(w, r)
				})))
			}
			if carriers[name] == nil || name == "none" {
				handlers = handlers[:1]
			}
			shown, refused := option(func(*http.Request) {}), 0
			for n := range steps {
				pass(9 * time.Second)
				costs = [3]int64{1 + rng.Int64N(3), rng.Int64N(8), rng.Int64N(60)}
				if rng.IntN(4) == 0 {
					costs[1+rng.IntN(2)] = 0
				}
				now, room := c.Now().UnixMicro(), true
				for i, a := range accounts {
					room = room && (costs[i] == 0 || costs[i] <= a.room(now))
				}
				resp := send(handlers[rng.IntN(len(handlers))], shown)
				require.Equal(t, room, resp.StatusCode == http.StatusOK, "step %d: %v", n, costs)
				if !room {
					refused++
				}
				if carry := carriers[name]; carry != nil && (name != "cookie" && resp.Header.Get(middleware.TokenHeader) != "" || name == "cookie" && slices.Contains(cookieNames(resp), "__Host-tallystick-contact")) {
					shown = carry(resp) // there is none where all has come back
				}
			}
			require.InDelta(t, 0.5, float64(refused)/float64(steps), 0.35, "the workload is near its limits")
		})
	}
}
