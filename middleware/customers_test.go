// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/kit"
)

type registry struct {
	mu     sync.Mutex
	limits map[string][]middleware.Limit
	err    error
	hang   bool // until the context ends
	takes  time.Duration
	asked  []string
}

func (reg *registry) limitsFor(ctx context.Context, id middleware.Identity) ([]middleware.Limit, error) {
	reg.mu.Lock()
	reg.asked = append(reg.asked, id.Tier+"/"+id.Name())
	limits, err, hang, takes := reg.limits[id.Name()], reg.err, reg.hang, reg.takes
	reg.mu.Unlock()
	time.Sleep(takes)
	if hang {
		<-ctx.Done()
	}
	return limits, err
}

// calls are how often the registry was asked so far.
func (reg *registry) calls() int {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	return len(reg.asked)
}

// byCustomer identifies by the field X-Customer, with the tier in X-Tier, and else by address.
func byCustomer(r *http.Request) (middleware.Identity, error) {
	name := r.Header.Get("X-Customer")
	if name == "" {
		return middleware.PeerAddress(r)
	}
	id := middleware.Principal(name)
	id.Tier = r.Header.Get("X-Tier")
	return id, nil
}

// addressesIn are the addresses of connections, each in one thing.
func addressesIn(thing string) middleware.IdentityFunc {
	return func(r *http.Request) (middleware.Identity, error) {
		id, err := middleware.PeerAddress(r)
		return id.For(thing), err
	}
}

func customer(name string) option { return with("X-Customer", name) }

// contracts is contact with the numbers of a registry, by the default deadline: what may wait for them is in a bubble.
func contracts(c *clock, reg *registry) middleware.Config {
	cfg := contact(c)
	cfg.Identity = byCustomer
	cfg.LimitsFor = &middleware.LimitsFor{Func: reg.limitsFor}
	return cfg
}

// patiently is a LimitsFor with a deadline that a busy machine does not meet.
func patiently(f func(context.Context, middleware.Identity) ([]middleware.Limit, error)) *middleware.LimitsFor {
	return &middleware.LimitsFor{Func: f, Deadline: 10 * time.Second}
}

func minutely(quota int64) []middleware.Limit { return []middleware.Limit{fixed(quota, time.Minute)} }

func TestLimitsForACustomer(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		reg := &registry{limits: map[string][]middleware.Limit{"big": minutely(20), "small": minutely(2)}}
		cfg := contracts(new(clock), reg)
		cfg.Tiers = map[string][]middleware.Limit{"pro": minutely(10)}
		cfg.Fields = middleware.RateLimitFields | middleware.XRateLimitInSeconds
		h := newSite(t, cfg)
		for _, test := range []struct {
			name  string
			who   option
			quota int
			tier  string
		}{
			{"numbers of its own", customer("big"), 20, ""},
			{"fewer", customer("small"), 2, ""},
			{"none of its own", customer("other"), 5, ""},
			{"those of its tier", with("X-Customer", "other", "X-Tier", "pro"), 10, "pro"},
			{"its own in a tier", with("X-Customer", "big2", "X-Tier", "pro"), 10, "pro"},
			{"an address", from("203.0.113.9"), 5, ""},
			{"an address of IPv6", from("2001:db8::1"), 5, ""},
		} {
			used := 1
			if test.name == "those of its tier" {
				used = 6 // a customer keeps its counts in another tier
			}
			resp := send(h, test.who)
			require.Equal(t, fmt.Sprintf(`"contact";q=%d;w=60`, test.quota), resp.Header.Get("RateLimit-Policy"), test.name)
			require.Equal(t, fmt.Sprintf(`"contact";r=%d;t=60`, test.quota-used), resp.Header.Get("RateLimit"), test.name)
			require.Equal(t, fmt.Sprint(test.quota), resp.Header.Get("X-RateLimit-Limit"), test.name)
			d := h.Decisions.Last()
			require.EqualValues(t, test.quota, d.Limits()[0].Quota)
			require.Equal(t, test.tier, d.Tier)
			require.NotEmpty(t, d.Pseudonym())
			require.Equal(t, test.quota-used, admitted(h, 30, test.who), test.name)
		}
		require.Equal(t, []string{"/big", "/small", "/other", "pro/other", "pro/big2"}, reg.asked, "addresses are never asked about, no customer is twice")
	})
}

// No number of addresses has the function called, or gets a place among what it has answered; nor has a flood with keys that are
// not valid.
func TestLimitsForNoAddress(t *testing.T) {
	for name, identity := range map[string]middleware.IdentityFunc{
		"addresses":    addressesIn("tenant"),
		"invalid keys": middleware.ValidatedKey(only(middleware.Identity{}), middleware.PeerAddress),
	} {
		reg := &registry{limits: map[string][]middleware.Limit{"": minutely(1000)}}
		cfg := contracts(new(clock), reg)
		cfg.Identity = identity
		h, _ := limited(t, cfg)
		for i := range 2000 {
			send(h, from(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String()), customer(strconv.Itoa(i)))
		}
		require.Zero(t, reg.calls(), name)
	}
}

// What goes wrong with an answer leaves the limits of the tier, or those that were known, and one line.
func TestLimitsForWithoutAnAnswer(t *testing.T) {
	bucket := middleware.Limit{Name: "contact", Algorithm: middleware.TokenBucket, Quota: 7, Window: time.Minute}
	for _, test := range []struct {
		name   string
		change func(*registry)
		log    string
		waits  time.Duration
	}{
		{"an error", func(r *registry) { r.err = errors.New("no database") }, "no database", 0},
		{"late", func(r *registry) { r.hang = true; r.err = context.DeadlineExceeded }, "deadline", 100 * time.Millisecond},
		{"no quota", func(r *registry) { r.limits["a"] = minutely(0) }, "the answer is not sound: Limits[0].Quota: must be from 1", 0},
		{"another window", func(r *registry) { r.limits["a"] = []middleware.Limit{fixed(7, time.Hour)} }, "must have the names, algorithms, windows and zones", 0},
		{"another algorithm", func(r *registry) { r.limits["a"] = []middleware.Limit{bucket} }, "must have the names, algorithms, windows and zones", 0},
		{"one more", func(r *registry) { r.limits["a"] = append(minutely(7), fixed(70, time.Hour)) }, "must have the names", 0},
		{"a shadow", func(r *registry) { r.limits["a"] = minutely(7); r.limits["a"][0].Shadow = true }, "at least one limit must be in force", 0},
	} {
		for _, known := range []bool{false, true} {
			kit.RunBubble(t, test.name, func(t *testing.T) {
				now, reg := new(clock), &registry{limits: map[string][]middleware.Limit{"a": minutely(20)}}
				cfg := contracts(now, reg)
				h := newSite(t, cfg)
				if known {
					require.Equal(t, `"contact";q=20;w=60`, send(h, customer("a")).Header.Get("RateLimit-Policy"))
					now.Advance(time.Hour)
				}
				reg.mu.Lock()
				test.change(reg)
				reg.mu.Unlock()
				want := map[bool]string{false: `"contact";q=5;w=60`, true: `"contact";q=20;w=60`}[known]
				began := time.Now()
				for range 5 {
					require.Equal(t, want, send(h, customer("a")).Header.Get("RateLimit-Policy"))
					synctest.Wait()
				}
				require.Equal(t, test.waits, time.Since(began), "the first waits, for no longer than the deadline")
				require.Contains(t, h.Log.Only(t), "LimitsFor has no answer")
				require.Contains(t, h.Log.Lines()[0], test.log)
				before := reg.calls()
				now.Advance(6 * time.Second)
				send(h, customer("a"))
				synctest.Wait()
				require.Equal(t, before+1, reg.calls(), "asked again")
				time.Sleep(time.Second) // its call ends
			})
		}
	}
}

// The function is asked again when its answer is old, and all that was counted stays.
func TestLimitsForAChange(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		now, reg := new(clock), &registry{limits: map[string][]middleware.Limit{"a": {fixed(5, time.Hour)}}, takes: time.Millisecond}
		cfg := contracts(now, reg)
		cfg.Limits = []middleware.Limit{fixed(3, time.Hour)}
		h := newSite(t, cfg)
		left := func() string { return send(h.M.HandlerCost(0, new(spy)), customer("a")).Header.Get("RateLimit") }
		require.Equal(t, 5, admitted(h, 6, customer("a")))
		reg.says([]middleware.Limit{fixed(8, time.Hour)}, nil)
		require.Equal(t, `"contact";r=0;t=3600`, left())
		now.Advance(time.Minute)
		require.Equal(t, `"contact";r=0;t=3540`, left(), "meanwhile")
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, `"contact";r=3;t=3540`, left())

		// A new configuration makes a change known at once; what was known is there if there is no answer.
		reg.says([]middleware.Limit{fixed(9, time.Hour)}, nil)
		require.NoError(t, h.M.Reconfigure(cfg))
		require.Equal(t, `"contact";r=4;t=3540`, left())
		reg.says(nil, errEngine)
		require.NoError(t, h.M.Reconfigure(cfg))
		require.Equal(t, `"contact";r=4;t=3540`, left())
		require.Equal(t, `"contact";r=4;t=3540`, left())
		// Not under other limits.
		cfg.Limits = []middleware.Limit{{Name: "contact", Quota: 3, Window: time.Minute}}
		require.NoError(t, h.M.Reconfigure(cfg))
		require.Equal(t, `"contact";r=3`, left())
	})
}

// What a request was charged under is what it is settled under.
func TestLimitsForASettledRequest(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		bucket := func(burst int64) []middleware.Limit {
			return []middleware.Limit{{Name: "b", Algorithm: middleware.TokenBucket, Quota: burst, Window: time.Minute}}
		}
		with := &registry{limits: map[string][]middleware.Limit{"a": bucket(60)}}
		cfg := contracts(new(clock), with)
		cfg.Limits = bucket(6)
		without := cfg
		without.LimitsFor = &middleware.LimitsFor{Func: new(registry).limitsFor}
		m := newLimiter(t, cfg)
		h := m.HandlerCost(10, &spy{Serve: func(_ http.ResponseWriter, r *http.Request) {
			require.NoError(t, m.Reconfigure(without))
			require.NoError(t, middleware.Settle(r, 50))
			require.NoError(t, m.Reconfigure(cfg))
		}})
		require.Equal(t, http.StatusOK, send(h, customer("a")).StatusCode)
		require.Equal(t, `"b";r=10;t=1`, send(m.HandlerCost(0, new(spy)), customer("a")).Header.Get("RateLimit"))
	})
}

// A customer's numbers go with work, rooms, outcomes, slots and counters.
func TestLimitsForWithEverything(t *testing.T) {
	slots := func(_ *clock, cfg *middleware.Config) { cfg.Concurrency = &middleware.Concurrency{Max: 2} }
	counter := func(c *clock, cfg *middleware.Config) {
		cfg.Exact = &middleware.Exact{Counter: memory.New(0, c.Now), Outage: middleware.FailClosed}
	}
	for _, test := range []struct {
		name   string
		change func(*clock, *middleware.Config)
	}{
		{"alone", func(*clock, *middleware.Config) {}},
		{"work, when exhausted", func(_ *clock, cfg *middleware.Config) {
			cfg.Challenge = &middleware.Challenge{Work: 16, Path: "/tally/"}
		}},
		{"work for each", func(_ *clock, cfg *middleware.Config) {
			cfg.Challenge = &middleware.Challenge{Mode: middleware.EveryRequest, NonceOnly: true, Path: "/tally/"}
		}},
		{"slots", slots},
		{"a counter", counter},
		{"a counter, slots", func(c *clock, cfg *middleware.Config) { counter(c, cfg); slots(c, cfg) }},
		{"a counter that is down", func(_ *clock, cfg *middleware.Config) {
			cfg.Exact = &middleware.Exact{Counter: &altered{OnTake: notTaken(exact.ErrNotCounted)}, Outage: middleware.FailOpen}
		}},
		{"outcomes", func(_ *clock, cfg *middleware.Config) {
			cfg.Limits = append(cfg.Limits, middleware.Limit{Name: "failures", Algorithm: middleware.FixedWindow, Quota: 3, Window: time.Minute})
			cfg.ByOutcome = &middleware.ByOutcome{Limits: []string{"failures"}, Free: []int{200}}
		}},
		{"no memory", func(_ *clock, cfg *middleware.Config) { cfg.InsecureNoMemory = true }},
	} {
		kit.RunBubble(t, test.name, func(t *testing.T) {
			now, reg := new(clock), &registry{limits: map[string][]middleware.Limit{}}
			cfg := contracts(now, reg)
			test.change(now, &cfg)
			own := append([]middleware.Limit(nil), cfg.Limits...)
			own[0].Quota = 12
			if len(own) > 1 {
				own[1].Quota = 4 // failures, and there are none
			}
			reg.limits["a"] = own
			h := newSite(t, cfg)
			tok, passed := "", 0
			for range 20 {
				options := []option{customer("a"), showing(tok)}
				if cfg.Challenge != nil && cfg.Challenge.Mode == middleware.EveryRequest {
					if offered := fetched(h, options...); offered.Header.Get(middleware.ChallengeHeader) != "" {
						options = append(options, proving(solved(t, offered)))
					}
				}
				resp := send(h, options...)
				if resp.StatusCode == http.StatusOK {
					passed++
					require.Contains(t, resp.Header.Get("RateLimit-Policy"), `"contact";q=12;w=60`)
				}
				if next := tokenIn(resp); next != "" {
					tok = next
				}
			}
			require.Equal(t, 12, passed)
			if test.name == "work, when exhausted" {
				bought := bought(t, h, customer("a"))
				require.Equal(t, 12, admitted(h, 13, customer("a"), showing(bought)), "a pass of its own numbers")
			}
		})
	}
}

func TestCallForACustomer(t *testing.T) {
	reg := &registry{limits: map[string][]middleware.Limit{"a": minutely(12)}}
	now := new(clock)
	cfg := contracts(now, reg)
	cfg.LimitsFor = patiently(reg.limitsFor)
	cfg.Exact = counting(memory.New(0, now.Now))
	call := kit.Must(newLimiter(t, cfg).CallFor(middleware.Principal("a")))(t)
	require.EqualValues(t, 12, call.Policy.Limit(0).Quota)
}

// No answer makes tokens that do not fit: it is refused, before anything is counted that could not be told.
func TestLimitsForATokenThatIsTooLong(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		reg := &registry{limits: map[string][]middleware.Limit{}}
		cfg := contracts(new(clock), reg)
		cfg.Limits = wordy(1)
		h := newSite(t, cfg)
		reg.limits["a"] = wordy(1 << 30)
		require.NotContains(t, send(h, customer("a")).Header.Get("RateLimit-Policy"), "1073741824")
		require.Contains(t, h.Log.String(), "too long for a token")
	})
}

func TestLimitsForIncorrect(t *testing.T) {
	for want, change := range map[string]func(*middleware.Config){
		"LimitsFor.Func: is required":                                                 func(cfg *middleware.Config) { cfg.LimitsFor.Func = nil },
		"LimitsFor.Life: must be from 1 s to 24 h, or 0 for 1 min, not 1 ms":          func(cfg *middleware.Config) { cfg.LimitsFor.Life = time.Millisecond },
		"LimitsFor.Life: must be from 1 s to 24 h, or 0 for 1 min, not 24 h 1 s":      func(cfg *middleware.Config) { cfg.LimitsFor.Life = 24*time.Hour + time.Second },
		"LimitsFor.Deadline: must be from 1 ms to 10 s, or 0 for 100 ms, not 1 µs":    func(cfg *middleware.Config) { cfg.LimitsFor.Deadline = time.Microsecond },
		"LimitsFor.Deadline: must be from 1 ms to 10 s, or 0 for 100 ms, not 11 s":    func(cfg *middleware.Config) { cfg.LimitsFor.Deadline = 11 * time.Second },
		"LimitsFor.Customers: must be from 1 to 1048576, or 0 for 65536, not -1":      func(cfg *middleware.Config) { cfg.LimitsFor.Customers = -1 },
		"LimitsFor.Customers: must be from 1 to 1048576, or 0 for 65536, not 1048577": func(cfg *middleware.Config) { cfg.LimitsFor.Customers = 1<<20 + 1 },
		"LimitsFor: needs an Identity: addresses have no limits of their own":         func(cfg *middleware.Config) { cfg.Identity = nil },
	} {
		cfg := contracts(new(clock), new(registry))
		change(&cfg)
		_, err := middleware.New(cfg)
		require.EqualError(t, err, `policy "contact": `+want)
	}
}

func TestLimitsForInParallel(t *testing.T) {
	reg := &registry{limits: map[string][]middleware.Limit{}}
	for i := range 40 {
		reg.limits[fmt.Sprint(i)] = minutely(int64(1 + i%7))
	}
	now := new(clock)
	cfg := contracts(now, reg)
	cfg.LimitsFor.Customers, cfg.LimitsFor.Life = 20, time.Second
	h := newSite(t, cfg)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 200 {
				send(h, customer(fmt.Sprint(i%50)))
				now.Advance(20 * time.Millisecond)
			}
		})
	}
	all.Go(func() {
		for range 20 {
			if err := h.M.Reconfigure(cfg); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
}

// Customers of two tiers whose own numbers are the same keep what else their tiers give them.
func TestLimitsForTheSameNumbersInTwoTiers(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		reg := &registry{limits: map[string][]middleware.Limit{"a": minutely(20), "b": minutely(20)}}
		cfg := contracts(new(clock), reg)
		cfg.Now = time.Now
		cfg.Tiers = map[string][]middleware.Limit{"pro": minutely(10), "team": minutely(10)}
		cfg.Concurrency = &middleware.Concurrency{Max: 1, Tiers: map[string]int{"pro": 3}}
		decisions := record(&cfg)
		m := newLimiter(t, cfg)
		for _, test := range []struct {
			who  option
			tier string
			most int64
		}{{customer("a"), "", 1}, {with("X-Customer", "b", "X-Tier", "pro"), "pro", 3}, {with("X-Customer", "c", "X-Tier", "team"), "team", 1}} {
			d := newDoor(false)
			come(m.Handler(d), 5, test.who)
			live := d.live.Load()
			d.opens()
			require.Equal(t, test.most, live, test.tier)
			require.Equal(t, test.tier, decisions.Last().Tier)
		}
	})
}

// says has the registry answer so from now on.
func (reg *registry) says(limits []middleware.Limit, err error) {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	reg.err = err
	if limits != nil {
		reg.limits = map[string][]middleware.Limit{"a": limits}
	}
}

// A request that has waited for its limits asks when it has them: it may be another window by then.
func TestLimitsForAreWaitedFor(t *testing.T) {
	now := new(clock)
	cfg := contact(now)
	cfg.Identity = byCustomer
	limits := cfg.Limits
	cfg.LimitsFor = patiently(func(context.Context, middleware.Identity) ([]middleware.Limit, error) {
		now.Advance(20 * time.Second)
		return limits, nil
	})
	h, _ := limited(t, cfg)
	for range 2 { // and the second does not wait
		require.Contains(t, send(h, with("X-Customer", "acme")).Header.Get("RateLimit"), ";t=40")
	}
}

// Names that are typed, as at a log-in, are as long as a client likes: none that is longer than a
// customer's drives the database, or is kept.
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
