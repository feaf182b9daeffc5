// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

func TestSettle(t *testing.T) {
	c := new(clock)
	bucket := metered(contact(c), 100)
	bucket.Limits[0].Algorithm = middleware.TokenBucket
	sliding := metered(contact(c), 100)
	sliding.Limits[0].Algorithm = storeless.SlidingWindow
	key := metered(contact(c), 100)
	key.Identity = only(middleware.APIKey("a key with a name that is longer than an address").For("maps"))
	narrow := metered(contact(c), 100)
	narrow.Identity = addressesIn("a product with a long name")
	tiers := metered(contact(c), 100)
	tiers.Tiers, tiers.Identity = map[string][]middleware.Limit{"pro": {tiers.Limits[0]}}, only(pro(middleware.Principal("p")))
	tiers.Limits[0].Quota = 5
	v6 := from("2001:db8::1")
	for name, test := range map[string]struct {
		cfg    middleware.Config
		option option
	}{
		"fixed window":      {metered(contact(c), 100), from("203.0.113.9")},
		"sliding window":    {sliding, from("203.0.113.9")},
		"token bucket":      {bucket, from("203.0.113.9")},
		"IPv6":              {metered(contact(c), 100), v6},
		"IPv6 in one thing": {narrow, v6},
		"IPv4 in one thing": {narrow, from("203.0.113.9")},
		"a translator":      {metered(contact(c), 100), from("64:ff9b:1::7")},
		"a key":             {key, v6},
		"a tier":            {tiers, v6},
		"exact":             {metered(paid(c, memory.New(0, c.Now)), 100), v6},
	} {
		t.Run(name, func(t *testing.T) {
			for _, m := range []string{http.MethodGet, http.MethodPost} {
				mw := newLimiter(t, test.cfg)
				h := mw.Handler(settling(t, false))
				as := []option{test.option, method(m)}
				resp := send(h, append(as, costing(10), settles(4))...)
				require.EqualValues(t, 96, unitsLeft(t, mw, as...)[0], "what is not used comes back")
				resp = send(h, append(as, costing(10), settles(16), tokenOf(resp))...)
				require.EqualValues(t, 80, unitsLeft(t, mw, as...)[0], "what is too little is charged")
				resp = send(h, append(as, costing(10), settles(10), tokenOf(resp))...)
				require.EqualValues(t, 70, unitsLeft(t, mw, as...)[0])
				send(h, append(as, costing(10), settles(0), tokenOf(resp))...)
				require.EqualValues(t, 70, unitsLeft(t, mw, append(as, tokenOf(resp))...)[0])
				if test.cfg.Exact == nil {
					require.EqualValues(t, 70, unitsLeft(t, newLimiter(t, test.cfg), append(as, tokenOf(resp))...)[0], "the token says it")
				}
				resp = requireStatus(t, http.StatusOK, send(h, append(as, costing(1), settles(500))...))
				require.EqualValues(t, 0, unitsLeft(t, mw, as...)[0], "past the limit")
				require.Equal(t, http.StatusTooManyRequests, send(h, append(as, tokenOf(resp))...).StatusCode)
				c.Advance(time.Hour)
				if test.cfg.Exact != nil {
					break // the counter is the same
				}
			}
		})
	}
}

func TestSettlements(t *testing.T) {
	of := func(quota int64) change { return func(cfg *middleware.Config) { *cfg = metered(*cfg, quota) } }
	left := func(n int, names string) func(*scene) { // to a client that shows these tokens
		return func(s *scene) {
			require.EqualValues(s, n, unitsLeft(s, s.site.M, showing(s.named(s.tokens, names)...))[0])
		}
	}
	elsewhere := func(n int, names string) func(*scene) { // on an instance that knows nothing
		return func(s *scene) {
			require.EqualValues(s, n, unitsLeft(s, newLimiter(s, s.cfg), showing(s.named(s.tokens, names)...))[0])
		}
	}
	play(t, []scenario{
		// 40 in the window before weigh 40·(60−e)/60: 9 of them are left from 46.5 s on.
		{"what is past the limit of a window weighs on", limiting(of(10), func(cfg *middleware.Config) {
			cfg.Limits[0].Algorithm = storeless.SlidingWindow
		}).serving(settling(t, false)), []step{
			{as: settles(40), want: 200, keep: "owes"}, {want: 429},
			{after: time.Minute + 46*time.Second, want: 429}, {show: "owes", want: 429}, {on: 1, show: "owes", want: 429},
			{after: time.Second, show: "owes", want: 200},
		}},
		// What was charged the client cannot shake off here; what was given back comes to clients that do not show the older token.
		{"after the header, memory alone knows", limiting(of(100)).serving(settling(t, true)), []step{
			{as: both(costing(10), settles(30)), want: 200, keep: "a", see: all{left(70, ""), left(70, "a"), elsewhere(90, "a")}},
			{as: costing(10), show: "a", want: 200, keep: "b", see: all{elsewhere(60, "b")}}, // the next token says it
			{as: both(costing(10), settles(1)), want: 200, keep: "c", see: all{left(59, ""), left(50, "c")}},
		}},
		{"an own tally is settled, and its token says so", working(middleware.WhenExhausted, of(100)).serving(settling(t, false)), []step{
			{do: buys("own"), as: both(costing(10), settles(30)), show: "own", want: 200, keep: "a", fields: fields{"RateLimit": `"contact";r=70;t=60`},
				see: all{left(70, "own"), elsewhere(70, "a"), left(100, "")}},
			{as: both(costing(10), settles(0)), show: "a", want: 200, keep: "b", see: all{elsewhere(70, "b")}},
			{as: both(costing(1), settles(500)), show: "own", want: 200},
			// More than the pass has: the shared tally pays, and the token stays the own one's.
			{as: both(costing(50), settles(60)), show: "own", want: 200, fields: fields{"RateLimit": `"contact";r=40;t=60`, middleware.TokenHeader: ""}, see: all{left(40, "")}},
		}},
		{"a token that was bought with the very request stays", working(middleware.WhenExhausted, of(100), func(cfg *middleware.Config) {
			cfg.Limits[0].Window = 24 * time.Hour
		}).serving(settling(t, false)), []step{
			{as: toFetch, want: 200, keep: "offer"},
			{as: both(costing(50), settles(60)), prove: "offer", want: 200, keep: "own", see: all{left(40, ""), left(5, "own")}},
		}},
		{"a quiet policy tells no numbers", limiting(quietly).serving(settling(t, false)), []step{
			{as: both(method(http.MethodGet), settles(2)), want: 200, fields: fields{"RateLimit": ""}},
		}},
	})
}

// TestSettleInTheWaitingRoom: the room's tally is settled, with its networks.
func TestSettleInTheWaitingRoom(t *testing.T) {
	c := new(clock)
	mw := newLimiter(t, waiting(c, middleware.Newcomers))
	h := mw.Handler(settling(t, false))
	client := from("2001:db8::1")
	tickets := ticketsOf(t, h, 12, client)
	c.Advance(time.Minute)
	passed := 0
	for _, ticket := range tickets {
		passed += admitted(h, 1, client, holding(ticket), settles(0))
	}
	require.Equal(t, 12, passed, "of a room of four")
	tickets = ticketsOf(t, h, 12, client)
	c.Advance(time.Minute)
	require.Equal(t, 1, admitted(h, 1, client, holding(tickets[0]), settles(4)))
	require.Zero(t, admittedWith(h, tickets[1:], client))
}

// TestSettleOracle: whatever is settled, before the header and after it, by requests that
// are all under way at once, the count is the sum.
func TestSettleOracle(t *testing.T) {
	c := new(clock)
	for name, cfg := range map[string]middleware.Config{
		"token policy": metered(contact(c), 1<<30),
		"exact":        metered(paid(c, &lossy{Counter: memory.New(0, c.Now)}), 1<<30),
	} {
		t.Run(name, func(t *testing.T) {
			mw := newLimiter(t, cfg)
			var sum atomic.Int64
			h := mw.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				cost, _ := strconv.ParseInt(r.Header.Get("Cost"), 10, 64)
				if rand.IntN(2) == 0 {
					w.WriteHeader(http.StatusOK)
				}
				actual := rand.Int64N(10)
				settle := func() error { return middleware.Settle(r, actual) }
				switch rand.IntN(4) {
				case 0:
					sum.Add(cost)
					return
				case 1:
					actual, settle = 0, func() error { return middleware.Refund(w, r) }
				}
				sum.Add(actual)
				err := settle()
				for tries := 0; err != nil; tries++ {
					require.Less(t, tries, 1000)
					require.NotErrorIs(t, err, exact.ErrNoRefund)
					err = settle()
				}
			}))
			kit.Together(8, func(int) {
				for range 200 {
					require.Equal(t, 1, admitted(h, 1, costing(1+rand.Int64N(9))))
				}
			})
			require.Equal(t, 1<<30-sum.Load(), unitsLeft(t, mw)[0])
		})
	}
}

// A lossy counter fails half of its settlements: before it has done them, or after.
type lossy struct{ exact.Counter }

func (l *lossy) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if !call.Past {
		return l.Counter.Take(ctx, call)
	}
	if rand.IntN(4) == 0 {
		return exact.Verdict{}, exact.ErrNotCounted
	}
	v, err := l.Counter.Take(ctx, call)
	if rand.IntN(4) == 0 {
		return exact.Verdict{}, fmt.Errorf("%w: lost", exact.ErrMaybeCounted)
	}
	return v, err
}

func (l *lossy) Refund(ctx context.Context, r exact.Receipt) error {
	if rand.IntN(4) == 0 {
		return exact.ErrNotCounted
	}
	err := l.Counter.Refund(ctx, r)
	if rand.IntN(4) == 0 {
		return fmt.Errorf("%w: lost", exact.ErrMaybeCounted)
	}
	return err
}

func TestSettleIncorrect(t *testing.T) {
	var errs []error
	mw := newLimiter(t, contact(new(clock)))
	send(mw.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		errs = append(errs, middleware.Settle(r, -1), middleware.Settle(r, 1))
	})))
	require.ErrorContains(t, errs[0], "cannot have cost -1")
	require.NoError(t, errs[1], "which has not spent the chance")
	require.ErrorIs(t, middleware.Settle(&http.Request{}, 1), exact.ErrNoRefund, "nothing has limited it")
	middleware.Charge(&http.Request{}, true)
	free := metered(contact(new(clock)), 5)
	send(newLimiter(t, free).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.ErrorIs(t, middleware.Settle(r, 1), exact.ErrNoRefund, "a peek is not charged")
	})), costing(0))
}

// What is given back to an address is given back to its networks: a hundred neighbours in a
// /56, which has eight times the quota of each.
func TestSettleGivesBackToNetworks(t *testing.T) {
	for name, identity := range map[string]middleware.IdentityFunc{
		"addresses":    middleware.PeerAddress,
		"in one thing": addressesIn("maps"),
	} {
		t.Run(name, func(t *testing.T) {
			h := newLimiter(t, changed(contact(new(clock)), func(cfg *middleware.Config) { cfg.Identity = identity })).Handler(settling(t, false))
			for i := range 100 {
				require.Equal(t, http.StatusOK, send(h, from(fmt.Sprintf("2001:db8:0:%x::1", i)), settles(0)).StatusCode)
			}
			passed := 0
			for i := range 100 {
				passed += admitted(h, 1, from(fmt.Sprintf("2001:db8:0:%x::1", i)))
			}
			require.Equal(t, 40, passed, "8L, and no more")
		})
	}
	t.Run("waiting room", func(t *testing.T) {
		c := new(clock)
		h := newLimiter(t, waiting(c, middleware.Newcomers)).Handler(settling(t, false))
		neighbour := func(i int) option { return from(fmt.Sprintf("2001:db8:0:%x::1", i)) }
		var tickets []string
		for i := range 100 {
			tickets = append(tickets, refusedWithTicket(t, h, neighbour(i)))
		}
		c.Advance(time.Minute)
		for i, ticket := range tickets {
			require.Equal(t, 1, admitted(h, 1, neighbour(i), holding(ticket), settles(0)))
		}
	})
}

// What is settled or given back, and when, takes no field away: nothing is outside of the limiter.
func TestNoFieldIsLostBySettling(t *testing.T) {
	for _, when := range []string{"say write", "say early write", "early say write", "write say", "flush say", "say"} {
		for what, say := range map[string]func(http.ResponseWriter, *http.Request) error{
			"more":    func(_ http.ResponseWriter, r *http.Request) error { return middleware.Settle(r, 40) },
			"less":    func(_ http.ResponseWriter, r *http.Request) error { return middleware.Settle(r, 4) },
			"nothing": middleware.Refund,
		} {
			for _, m := range []string{http.MethodGet, http.MethodPost} {
				for how, around := range map[string]func(h, in *middleware.Middleware, next http.Handler) http.Handler{
					"alone":   func(h, _ *middleware.Middleware, next http.Handler) http.Handler { return h.Handler(next) },
					"outside": func(h, in *middleware.Middleware, next http.Handler) http.Handler { return h.Handler(in.Handler(next)) },
					"inside":  func(h, in *middleware.Middleware, next http.Handler) http.Handler { return in.Handler(h.Handler(next)) },
				} {
					t.Run(what+": "+when+" "+m+" "+how, func(t *testing.T) {
						now := new(clock)
						cfg := contact(now)
						cfg.Limits[0].Quota = 100
						cfg.Cost = func(*http.Request) int64 { return 10 }
						log := logTo(&cfg)
						h := newLimiter(t, cfg)
						cfg.Policy = "other"
						in := newLimiter(t, cfg)
						now.Advance(time.Second)
						send(around(h, in, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							for step := range strings.FieldsSeq(when) {
								switch step {
								case "say":
									require.NoError(t, say(w, r))
								case "early":
									w.WriteHeader(http.StatusEarlyHints)
								case "write":
									_, _ = w.Write([]byte("x"))
								case "flush":
									require.NoError(t, http.NewResponseController(w).Flush())
								}
							}
						})), method(m))
						require.Empty(t, log.Lines())
					})
				}
			}
		}
	}
}

// What is settled before the header is in the RateLimit field, as in the token.
func TestRateLimitSaysWhatIsSettled(t *testing.T) {
	for name, change := range map[string]func(*middleware.Config){
		"fixed window":   func(*middleware.Config) {},
		"sliding window": func(cfg *middleware.Config) { cfg.Limits[0].Algorithm = storeless.SlidingWindow },
		"token bucket":   func(cfg *middleware.Config) { cfg.Limits[0].Algorithm = middleware.TokenBucket },
		"cookie alone":   func(cfg *middleware.Config) { cfg.TokenTransport = middleware.CookieOnly },
		"no cookie":      func(cfg *middleware.Config) { cfg.TokenTransport = middleware.HeaderOnly },
		"memory alone":   func(cfg *middleware.Config) { cfg.TokenTransport = middleware.MemoryOnly },
		"by outcome": func(cfg *middleware.Config) {
			cfg.Limits = append(cfg.Limits, middleware.Limit{Quota: 1000, Window: time.Hour})
			cfg.ByOutcome = &middleware.ByOutcome{Limits: []string{"contact"}, Free: []int{http.StatusTeapot}}
		},
		"exact": func(cfg *middleware.Config) {
			cfg.Exact = counting(memory.New(0, cfg.Now))
		},
		"exact, and down": func(cfg *middleware.Config) {
			l := newLedger(new(clock))
			l.Fault = onFire
			cfg.Exact = &middleware.Exact{Counter: l, Outage: middleware.FailOpen}
		},
	} {
		for _, m := range []string{http.MethodGet, http.MethodPost} {
			for settled, left := range map[int64]string{10: "90", 4: "96", 40: "60", 0: "100", 500: "0"} {
				t.Run(name+" "+m+" "+strconv.FormatInt(settled, 10), func(t *testing.T) {
					cfg := contact(new(clock))
					cfg.Limits[0].Quota = 100
					cfg.Cost = func(*http.Request) int64 { return 10 }
					cfg.Fields = middleware.RateLimitFields | middleware.XRateLimitInSeconds
					change(&cfg)
					h := newLimiter(t, cfg).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						require.NoError(t, middleware.Settle(r, settled))
						w.WriteHeader(http.StatusOK)
					}))
					resp := requireStatus(t, http.StatusOK, send(h, method(m)))
					require.Len(t, resp.Header.Values("RateLimit"), 1)
					require.Regexp(t, `"contact";r=`+left+"\\b", resp.Header.Get("RateLimit"))
					require.Equal(t, []string{left}, resp.Header.Values("X-RateLimit-Remaining"))
					require.Len(t, resp.Header.Values("RateLimit-Policy"), 1)
					if name == "memory alone" {
						requireHeader(t, resp, middleware.TokenHeader, "", "Set-Cookie", "")
					}
				})
			}
		}
	}
}

// Each policy of a stack has its line, and the innermost's says what was settled.
func TestRateLimitOfAStackSaysWhatIsSettled(t *testing.T) {
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		_, _, h := stack(t, new(clock), plain, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			require.NoError(t, middleware.Settle(r, 2))
			w.WriteHeader(http.StatusOK)
		}))
		resp := send(h, method(m))
		require.Equal(t, []string{`"site";r=6;t=60`, `"page";r=0;t=60`}, resp.Header.Values("RateLimit"), m)
		require.Len(t, resp.Header.Values(middleware.TokenHeader), 2)
		require.Len(t, resp.Cookies(), 2)
	}
}

// TestRefundBehindATimeout: http.TimeoutHandler answers and leaves the handler behind, which gives back what it could
// not deliver in time, while the response is written. The race detector is the judge.
func TestRefundBehindATimeout(t *testing.T) {
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		t.Run(m, func(t *testing.T) {
			now := new(clock)
			cfg := paid(now, newLedger(now))
			cfg.Limits[0].Quota = 1000
			outer := contact(now)
			outer.Policy, outer.Limits[0].Quota = "outer", 1000
			var late sync.WaitGroup
			var pause time.Duration
			inner := newLimiter(t, cfg).Handler(http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer late.Done()
				<-r.Context().Done()
				for began := time.Now(); time.Since(began) < pause; { // no sleep is that short
				}
				require.NoError(t, middleware.Refund(w, r))
			}), time.Millisecond, "late"))
			server := serve(t, newLimiter(t, outer).Handler(inner))
			c := clientAt(t, "127.0.0.2")
			for i := range 60 {
				pause = time.Duration(i) * 5 * time.Microsecond
				late.Add(1)
				over(t, c, server.URL, method(m)) // 503, or 200 where the handler was done sooner
				late.Wait()
			}
		})
	}
}

// losing loses the answers to refunds, in the order of lose: after they were made.
type losing struct {
	exact.Counter
	lose  []fate
	asked int
}

// A fate decides what becomes of a refund's answer.
type fate int

const (
	arrives fate = iota
	lostAtOnce
	lostInTime // no answer until the deadline
	notCounted
	otherError
	lostTooLate // as lostInTime, of a refund that is not made
	tooLate
	uncharged
)

func (l *losing) Refund(ctx context.Context, r exact.Receipt) error {
	becomes := arrives
	if l.asked < len(l.lose) {
		becomes = l.lose[l.asked]
	}
	l.asked++
	if err := map[fate]error{notCounted: exact.ErrNotCounted, tooLate: exact.ErrLateRefund, uncharged: exact.ErrNoRefund}[becomes]; err != nil {
		return err
	}
	var err error
	if becomes != lostTooLate {
		err = l.Counter.Refund(ctx, r)
	}
	switch becomes {
	case lostAtOnce:
		return exact.ErrMaybeCounted
	case lostInTime, lostTooLate:
		<-ctx.Done()
		return fmt.Errorf("%w: %w", exact.ErrMaybeCounted, ctx.Err())
	case otherError:
		return errEngine
	}
	return err
}

// A refund whose answer is lost is asked for again, by us and by the caller, and given once. What comes back too late is an error,
// is not asked for again, and is counted; a charge that the counter does not have is no lost answer.
func TestRefundWhoseAnswerIsLost(t *testing.T) {
	for name, tt := range map[string]struct {
		lose  []fate
		errs  []error // of Refund, call by call; nil: it is done
		asked int
		late  uint64 // refunds, as Stats count them
		gone  int    // requests that were not given back
	}{
		"never":                     {nil, []error{nil, exact.ErrNoRefund}, 1, 0, 0},
		"once":                      {[]fate{lostAtOnce}, []error{nil, exact.ErrNoRefund}, 2, 0, 0},
		"of any other error":        {[]fate{otherError}, []error{nil, exact.ErrNoRefund}, 2, 0, 0},
		"twice":                     {[]fate{lostAtOnce, lostAtOnce}, []error{exact.ErrMaybeCounted, nil, exact.ErrNoRefund}, 3, 0, 0},
		"three times":               {[]fate{lostAtOnce, lostAtOnce, lostAtOnce}, []error{exact.ErrMaybeCounted, nil, exact.ErrNoRefund}, 4, 0, 0},
		"for the deadline":          {[]fate{lostInTime}, []error{exact.ErrMaybeCounted, nil, exact.ErrNoRefund}, 2, 0, 0},
		"once, then not asked":      {[]fate{lostAtOnce, notCounted}, []error{exact.ErrNotCounted, nil, exact.ErrNoRefund}, 3, 0, 0},
		"not asked, then lost":      {[]fate{notCounted, lostAtOnce}, []error{exact.ErrNotCounted, nil, exact.ErrNoRefund}, 3, 0, 0},
		"not asked is not repeated": {[]fate{notCounted}, []error{exact.ErrNotCounted, nil, exact.ErrNoRefund}, 2, 0, 0},
		"not asked, twice":          {[]fate{notCounted, notCounted}, []error{exact.ErrNotCounted, exact.ErrNotCounted, nil, exact.ErrNoRefund}, 3, 0, 0},
		"of nothing":                {[]fate{uncharged}, []error{exact.ErrNoRefund, exact.ErrNoRefund}, 1, 0, 1},
		"and comes too late":        {[]fate{lostTooLate, tooLate}, []error{exact.ErrMaybeCounted, exact.ErrLateRefund, exact.ErrNoRefund}, 2, 1, 1},
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			counter := &losing{Counter: memory.New(0, nil), lose: tt.lose}
			cfg := hasty(new(clock), counter)
			cfg.Now = nil
			fails := true
			m := newLimiter(t, cfg)
			h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !fails {
					return
				}
				fails = false
				for i, want := range tt.errs {
					require.ErrorIs(t, middleware.Refund(w, r), want, "call %d", i)
				}
			}))
			require.Equal(t, http.StatusOK, send(h).StatusCode)
			require.Equal(t, tt.asked, counter.asked)
			require.Equal(t, 5-tt.gone, admitted(h, 10), "all of the quota is there, and no more")
			require.Equal(t, tt.late, m.Stats().Counter.LateRefunds)
			synctest.Wait()
		})
	}
}

func TestExactRefundLeavesTokenMemoryAndCounterAgreeing(t *testing.T) {
	for _, m := range []string{http.MethodPost, http.MethodGet} {
		for _, memory := range []bool{true, false} {
			_, l, cfg := paidRoute()
			cfg.Exact.Outage = middleware.FailOpen
			cfg.InsecureNoMemory = !memory
			var again error
			failing := func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Fail") != "" {
					apart := map[bool]http.ResponseWriter{true: w, false: httptest.NewRecorder()}[memory] // as http.TimeoutHandler has it
					require.NoError(t, middleware.Refund(apart, r))
					again = middleware.Refund(apart, r)
					w.WriteHeader(http.StatusBadGateway)
				}
			}
			h := newLimiter(t, cfg).Handler(&spy{Serve: failing})
			first := send(h, method(m))
			tok := first.Header.Get(middleware.TokenHeader)
			failed := send(h, method(m), with("X-Fail", "1"), showing(tok))
			require.ErrorIs(t, again, exact.ErrNoRefund)
			require.EqualValues(t, 1, l.Charged)
			refunded := failed.Header.Get(middleware.TokenHeader)
			require.Equal(t, tok, refunded, "the token of before, byte for byte")

			// The fallback tells what token and memory say.
			l.Fault = func(context.Context, int) error { return errEngine }
			resp := send(h, method(m), showing(refunded))
			require.Equal(t, `"contact";r=3;t=60`, resp.Header.Get("RateLimit"))

			// Whatever the handler says of caching.
			l.Fault = nil
			again = nil
			private := newLimiter(t, cfg).Handler(&spy{Serve: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "private")
				failing(w, r)
			}})
			tok = send(private, method(m), from("203.0.113.8")).Header.Get(middleware.TokenHeader)
			back := send(private, method(m), with("X-Fail", "1"), showing(tok), from("203.0.113.8"))
			require.Equal(t, []string{tok}, back.Header.Values(middleware.TokenHeader))

			// The only request that was counted, refunded: no token is left.
			l.Fault = nil
			other := send(h, method(m), with("X-Fail", "1"), from("203.0.113.9"))
			requireHeader(t, other, middleware.TokenHeader, "", "Set-Cookie", "")
		}
	}
	require.ErrorIs(t, middleware.Refund(nil, &http.Request{}), exact.ErrNoRefund)
}

func TestExactRefundOpensASpentKey(t *testing.T) {
	c := new(clock)
	l := newLedger(c)
	started, release := make(chan struct{}), make(chan struct{})
	h := newLimiter(t, paid(c, l)).Handler(&spy{Serve: func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Fail") != "" {
			close(started)
			<-release
			require.NoError(t, middleware.Refund(w, r))
		}
	}})
	done := make(chan struct{})
	go func() { defer close(done); send(h, with("X-Fail", "1")) }()
	<-started
	require.Equal(t, 4, admitted(h, 6))
	close(release)
	<-done
	require.Equal(t, 1, admitted(h, 2), "what was given back can be had")
}

// A refusal that was on its way during a refund is told, and not remembered.
func TestExactRefusalDoesNotOvertakeARefund(t *testing.T) {
	c := new(clock)
	var taken atomic.Int64
	var hold atomic.Bool
	counter, release := memory.New(0, c.Now), make(chan struct{})
	held := &altered{Counter: counter, OnTake: func(ctx context.Context, call exact.Call) (exact.Verdict, error) {
		v, err := counter.Take(ctx, call)
		if taken.Add(1); hold.Load() {
			<-release // on its way
		}
		return v, err
	}}
	m := newLimiter(t, paid(c, held))
	refund := make(chan struct{})
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Refund") != "" {
			<-refund
			if err := middleware.Refund(w, r); err != nil {
				t.Error(err)
			}
		}
	}))
	require.Equal(t, 4, admitted(h, 4))
	fifth, sixth := make(chan int, 1), make(chan int, 1)
	go func() { fifth <- send(h, with("Refund", "1")).StatusCode }()
	require.Eventually(t, func() bool { return taken.Load() == 5 }, 5*time.Minute, time.Millisecond)
	hold.Store(true)
	go func() { sixth <- send(h).StatusCode }()
	require.Eventually(t, func() bool { return taken.Load() == 6 }, 5*time.Minute, time.Millisecond)
	hold.Store(false)
	close(refund)
	require.Equal(t, http.StatusOK, <-fifth)
	close(release)
	require.Equal(t, http.StatusTooManyRequests, <-sixth)
	require.Equal(t, http.StatusOK, send(h).StatusCode)
}
