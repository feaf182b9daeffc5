// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/kit"
)

// failures returns how many failures more a client may have, by what the next decision says, which is taken back.
func failuresLeft(t testing.TB, m *middleware.Middleware, options ...option) int64 {
	t.Helper()
	var left int64
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := middleware.FromContext(r.Context())
		left = d.Limits()[1].Remaining + 1
		middleware.Charge(r, false)
	}))
	if send(h, options...).StatusCode == http.StatusTooManyRequests {
		return 0
	}
	return left
}

// passwords is a log-in: a right password is answered 303, a wrong one 401.
func passwords(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Password") == "right" {
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	w.WriteHeader(http.StatusUnauthorized)
}

var right = with("X-Password", "right")

func TestOutcomeCountsFailuresAlone(t *testing.T) {
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		play(t, []scenario{{m, by(login).serving(passwords), []step{
			{as: both(method(m), right), times: 100, want: 303}, {as: method(m), times: 5, want: 401},
			{as: both(method(m), right), want: 429, fields: fields{"Retry-After": anything}}, {after: time.Minute, as: method(m), want: 401},
		}}})
	}
}

// The token that goes with an answer says whether it counts: another instance knows nothing else.
func TestOutcomeIsInTheToken(t *testing.T) {
	for name, carry := range map[string]middleware.TokenTransport{"header": middleware.HeaderOnly, "cookie": middleware.CookieOnly} {
		t.Run(name, func(t *testing.T) {
			c := new(clock)
			cfg := login(c)
			cfg.TokenTransport = carry
			show := func(resp *http.Response) option {
				if carry == middleware.HeaderOnly {
					return showing(resp.Header.Get(middleware.TokenHeader))
				}
				cookies := resp.Cookies()
				require.Len(t, cookies, 1)
				return with("Cookie", cookies[0].Name+"="+cookies[0].Value)
			}
			m := newLimiter(t, cfg)
			h := m.Handler(http.HandlerFunc(passwords))
			require.EqualValues(t, 5, failuresLeft(t, newLimiter(t, cfg), show(send(h, right))))
			resp := send(h)
			require.EqualValues(t, 4, failuresLeft(t, newLimiter(t, cfg), show(resp)))
			resp = send(h, show(resp))
			require.EqualValues(t, 3, failuresLeft(t, newLimiter(t, cfg), show(resp)))
			resp = send(h, show(resp), right)
			require.EqualValues(t, 3, failuresLeft(t, newLimiter(t, cfg), show(resp)))
		})
	}
}

// A handler and what becomes of its request.
func TestOutcomeThatIsNotToldIsCharged(t *testing.T) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	var c *clock
	for _, test := range []struct {
		name    string
		charged int64
		ctx     context.Context
		serve   http.HandlerFunc
	}{
		{"a free status", 0, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(303) }},
		{"another status", 1, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(302) }},
		{"no status", 1, nil, func(http.ResponseWriter, *http.Request) {}},
		{"a body alone", 0, nil, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "welcome") }},
		{"a flush alone", 1, nil, func(w http.ResponseWriter, r *http.Request) { _ = http.NewResponseController(w).Flush() }},
		{"a flush, then a free status", 1, nil, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			w.WriteHeader(303)
		}},
		{"no flush, then a free status", 0, nil, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			w.WriteHeader(303)
		}},
		{"a failed flush, then a free status after ten seconds", 1, nil, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			c.Advance(10 * time.Second)
			w.WriteHeader(303)
		}},
		{"a free status, then no flush, then a body", 0, nil, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(303)
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "see other")
		}},
		{"another status, then no flush, then a body", 1, nil, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(401)
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "wrong")
		}},
		{"early hints", 1, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(103) }},
		{"early hints, then a free status", 0, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(103); w.WriteHeader(303) }},
		{"a status, then a free one", 1, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401); w.WriteHeader(303) }},
		{"the client is gone", 1, gone, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(303) }},
		{"a panic", 1, nil, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"a panic after a free status", 1, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(303); panic(http.ErrAbortHandler) }},
		{"a panic after no charge", 1, nil, func(w http.ResponseWriter, r *http.Request) { middleware.Charge(r, false); panic(http.ErrAbortHandler) }},
		{"a hijack", 1, nil, hijack},
		{"a hijack after a free status", 1, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(303); hijack(w, r) }},
		{"a free status after ten seconds", 1, nil, func(w http.ResponseWriter, r *http.Request) { c.Advance(10 * time.Second); w.WriteHeader(303) }},
		{"a free status a moment before", 0, nil, func(w http.ResponseWriter, r *http.Request) {
			c.Advance(10*time.Second - time.Microsecond)
			w.WriteHeader(303)
		}},
		{"no charge", 0, nil, func(w http.ResponseWriter, r *http.Request) { middleware.Charge(r, false); w.WriteHeader(401) }},
		{"no charge and no status", 0, nil, func(w http.ResponseWriter, r *http.Request) { middleware.Charge(r, false) }},
		{"no charge, late", 0, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401); middleware.Charge(r, false) }},
		{"no charge after ten seconds", 0, nil, func(w http.ResponseWriter, r *http.Request) { c.Advance(time.Minute); middleware.Charge(r, false) }},
		{"no charge and a hijack", 0, nil, func(w http.ResponseWriter, r *http.Request) { middleware.Charge(r, false); hijack(w, r) }},
		{"Charge", 1, nil, func(w http.ResponseWriter, r *http.Request) { middleware.Charge(r, true); w.WriteHeader(303) }},
		{"Charge, late", 1, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(303); middleware.Charge(r, true) }},
		{"Charge twice", 1, nil, func(w http.ResponseWriter, r *http.Request) { middleware.Charge(r, true); middleware.Charge(r, true) }},
		{"both", 1, nil, func(w http.ResponseWriter, r *http.Request) { middleware.Charge(r, false); middleware.Charge(r, true) }},
		{"both, and no charge at last", 0, nil, func(w http.ResponseWriter, r *http.Request) {
			middleware.Charge(r, false)
			middleware.Charge(r, true)
			middleware.Charge(r, false)
		}},
		{"a refund", 0, nil, func(w http.ResponseWriter, r *http.Request) { _ = middleware.Refund(w, r); w.WriteHeader(401) }},
		{"a refund, late", 0, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401); _ = middleware.Refund(w, r) }},
		{"settled for three", 3, nil, func(w http.ResponseWriter, r *http.Request) { _ = middleware.Settle(r, 3); w.WriteHeader(401) }},
		{"settled for three, late", 3, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401); _ = middleware.Settle(r, 3) }},
		{"settled for three and free", 0, nil, func(w http.ResponseWriter, r *http.Request) { _ = middleware.Settle(r, 3); w.WriteHeader(303) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c = new(clock)
			cfg := login(c)
			cfg.ByOutcome.Free = []int{200, 303}
			var outer, inner http.Handler
			m := newLimiter(t, cfg)
			inner = m.Handler(test.serve)
			outer = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() { _ = recover() }()
				if test.ctx != nil {
					r = r.WithContext(test.ctx)
				}
				switch {
				case strings.HasPrefix(test.name, "a failed flush"):
					w = unflushable{w}
				case !strings.HasPrefix(test.name, "a flush"):
					w = flushless{w}
				}
				inner.ServeHTTP(w, r)
			})
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			from("203.0.113.1")(r)
			w := httptest.NewRecorder()
			outer.ServeHTTP(w, r)
			require.Equal(t, 5-test.charged, failuresLeft(t, m))
		})
	}
}

// unflushable is a writer that cannot flush, and says so only when it is asked.
type unflushable struct{ http.ResponseWriter }

func (unflushable) FlushError() error { return http.ErrNotSupported }

// flushless is a writer whose connection can be taken over, and which cannot flush.
type flushless struct{ http.ResponseWriter }

func (flushless) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

func hijack(w http.ResponseWriter, _ *http.Request) { _, _, _ = w.(http.Hijacker).Hijack() }

// A log-in is limited by address and by account, and answers 303 in either case. What its
// handler says is heard by both policies: else the outer one would count no guess at all.
func TestWhatTheHandlerSaysIsHeardByAllPolicies(t *testing.T) {
	for _, right := range []bool{false, true} {
		c := new(clock)
		outer, inner := newLimiter(t, login(c)), newLimiter(t, login(c))
		h := outer.Handler(inner.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			middleware.Charge(r, !right)
			w.WriteHeader(http.StatusSeeOther)
		})))
		for range 2 {
			require.Equal(t, http.StatusSeeOther, send(h).StatusCode)
		}
		want := int64(3)
		if right {
			want = 5
		}
		require.EqualValues(t, want, failuresLeft(t, inner))
		require.EqualValues(t, want, failuresLeft(t, outer))
	}
}

func TestByOutcomeIncorrect(t *testing.T) {
	c := new(clock)
	challenge := func(mode middleware.Mode, share int64) func(*middleware.Config) {
		return func(cfg *middleware.Config) {
			cfg.Challenge = &middleware.Challenge{Mode: mode}
			cfg.Challenge.WaitingRoom = share
		}
	}
	requireMistakes(t, login, []mistake{
		{"ByOutcome.Limits", func(cfg *middleware.Config) { cfg.ByOutcome.Limits = nil }, "must name"},
		{"ByOutcome.Limits", func(cfg *middleware.Config) { cfg.ByOutcome.Limits = []string{"failure"} }, `"failure" is none of attempts, failures`},
		{"ByOutcome.Limits", func(cfg *middleware.Config) { cfg.ByOutcome.Limits = []string{"failures", "failures"} }, `has "failures" twice`},
		{"ByOutcome.Limits", func(cfg *middleware.Config) { cfg.ByOutcome.Limits = []string{"failures", "attempts"} }, "must leave out at least one"},
		{"ByOutcome.Free", func(cfg *middleware.Config) { cfg.ByOutcome.Free = []int{103} }, "200 to 599, not 103"},
		{"ByOutcome.Free", func(cfg *middleware.Config) { cfg.ByOutcome.Free = []int{303, 0} }, "not 0"},
		{"ByOutcome", func(cfg *middleware.Config) {
			cfg.Exact = &middleware.Exact{Counter: memory.New(0, c.Now), Outage: middleware.FailClosed}
		}, "cannot go with Exact"},
		{"ByOutcome", func(cfg *middleware.Config) { cfg.InsecureNoMemory = true }, "cannot go with InsecureNoMemory"},
		{"ByOutcome", challenge(middleware.WhenExhausted, 0), "as many guesses again"},
		{"ByOutcome", challenge(middleware.Newcomers, 0), "as many guesses again"},
		{"ByOutcome", challenge(middleware.EveryRequest, 5), "guesses for a wait"},
	})
	cfg := login(c)
	challenge(middleware.EveryRequest, 0)(&cfg)
	_, err := middleware.New(cfg)
	require.NoError(t, err, "work for each guess is the right thing")
}

// served sends requests of n clients at once, has none end before the last is decided, and returns how many were served.
func served(t testing.TB, m *middleware.Middleware, n int, who func(i int) option, serve http.HandlerFunc) int64 {
	t.Helper()
	hold := make(chan struct{})
	var served atomic.Int64
	var decided sync.WaitGroup
	decided.Add(n)
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		decided.Done()
		<-hold
		serve(w, r)
	}))
	go func() {
		decided.Wait()
		close(hold)
	}()
	inParallel(n, func(i int) {
		if resp := send(h, who(i)); resp.StatusCode == http.StatusTooManyRequests {
			require.NotEmpty(t, resp.Header.Get("Retry-After"))
			decided.Done()
		}
	})
	return served.Load()
}

// one is the single client of most tests.
func one(int) option { return from("203.0.113.1") }

// A thousand wrong passwords at once, all still being hashed when the last is decided: at most L
// are tried on each instance, and exactly L are counted.
func TestOutcomeOfAThousandWrongPasswords(t *testing.T) {
	for range 2 {
		m := newLimiter(t, login(new(clock)))
		require.EqualValues(t, 5, served(t, m, 1000, one, passwords))
		require.Zero(t, failuresLeft(t, m))
	}
}

// Five requests that send a byte of the form in ten seconds.
func TestOutcomeOfSlowRequestsIsCharged(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		cfg := login(new(clock))
		cfg.Now = time.Now
		m, d := newLimiter(t, cfg), newDoor(false)
		come(m.Handler(d), 5)
		require.Zero(t, failuresLeft(t, m), "they hold all of it")
		time.Sleep(10 * time.Second)
		require.Zero(t, failuresLeft(t, m), "and are charged then")
		tok := tokenIn(send(m.Handler(http.HandlerFunc(passwords)), showing(earned(t, cfg))))
		require.Zero(t, failuresLeft(t, newLimiter(t, cfg), showing(tok)), "which tokens say")
		time.Sleep(50 * time.Second)
		require.EqualValues(t, 5, failuresLeft(t, m), "no longer than five wrong passwords")
		d.opens()
		require.EqualValues(t, 5, failuresLeft(t, m))
	})
}

// What was held for too long counts from when it was due, also if no request came for an hour.
func TestOutcomeIsChargedWhenItIsDue(t *testing.T) {
	c := new(clock)
	m := newLimiter(t, login(c))
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Slow") != "" {
			c.Advance(time.Hour)
		}
		passwords(w, r)
	}))
	resp := send(h, with("X-Slow", "1"))
	require.EqualValues(t, 5, failuresLeft(t, m))
	require.EqualValues(t, 5, failuresLeft(t, newLimiter(t, login(c)), showing(resp.Header.Get(middleware.TokenHeader))))
}

// What is overdue is charged before something is settled, so that counts change in the order of
// time: what was settled in this minute is not lost to a request that hangs since the last.
func TestOutcomeThatIsOverdueIsChargedBeforeASettlement(t *testing.T) {
	c := new(clock)
	m := newLimiter(t, login(c))
	came, goes := make(chan struct{}), make(chan struct{})
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Slow") != "" {
			close(came)
			<-goes
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		c.Advance(20 * time.Second)
		require.NoError(t, middleware.Settle(r, 3))
	}))
	c.Advance(44 * time.Second)
	var slow sync.WaitGroup
	slow.Go(func() { send(h, with("X-Slow", "1")) })
	<-came
	c.Advance(6 * time.Second)
	send(h)
	left := failuresLeft(t, m)
	close(goes)
	slow.Wait()
	require.EqualValues(t, 3, left, "two more were settled in this minute")
}

// What was counted by its outcome is given back in the window in which it was counted, and not in
// that in which the request came.
func TestOutcomeIsSettledWhereItWasCharged(t *testing.T) {
	c := new(clock)
	m := newLimiter(t, login(c))
	c.Advance(57 * time.Second)
	send(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.Advance(6 * time.Second)
		w.WriteHeader(http.StatusUnauthorized)
		require.NoError(t, middleware.Settle(r, 0))
	})))
	require.EqualValues(t, 5, failuresLeft(t, m))
}

// The networks of an IPv6 address hold and count too: else 256 neighbours of a /56 would
// try 256 times as much at once.
func TestOutcomeOfANetwork(t *testing.T) {
	m := newLimiter(t, login(new(clock)))
	neighbour := func(i int) option { return from(fmt.Sprintf("2001:db8:0:%x::1", i)) }
	require.EqualValues(t, 40, served(t, m, 100, neighbour, passwords), "8L")
	require.Zero(t, failuresLeft(t, m, neighbour(0xff)))
	require.EqualValues(t, 5, failuresLeft(t, m, neighbour(0x100)))
}

// TestOutcomeOracle: requests of every kind, all at once, which show any token that any of them has got, are counted
// as one after the other would be. A charge that is given back later is in the tokens that others got meanwhile, and
// counts on for the clients that show them (docs/api.md): so requests with such charges show no token.
func TestOutcomeOracle(t *testing.T) {
	for _, echo := range []bool{false, true} {
		t.Run(fmt.Sprintf("echo %t", echo), func(t *testing.T) { outcomeOracle(t, echo) })
	}
}

func outcomeOracle(t *testing.T, echo bool) {
	c := new(clock)
	m := newLimiter(t, changed(login(c), func(cfg *middleware.Config) { cfg.Limits[0].Quota, cfg.Limits[1].Quota = 1<<30, 1<<30 }))
	var counted atomic.Int64
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counts := int64(0)
		defer func() { counted.Add(counts) }()
		switch rand.IntN(8) {
		case 0:
			counts = 1
		case 1:
			w.WriteHeader(http.StatusSeeOther)
		case 2:
			counts = 1
			w.WriteHeader(http.StatusSeeOther)
			panic(http.ErrAbortHandler)
		case 3:
			middleware.Charge(r, false)
			w.WriteHeader(http.StatusUnauthorized)
		case 4:
			counts = 1
			w.WriteHeader(http.StatusSeeOther)
			middleware.Charge(r, true)
		case 5:
			counts = rand.Int64N(5)
			_ = middleware.Settle(r, counts)
			w.WriteHeader(http.StatusUnauthorized)
		case 6:
			middleware.Charge(r, true)
			if counts = 1; !echo {
				counts = 0
				_ = middleware.Refund(w, r)
			}
		case 7:
			counts = 1
			var both sync.WaitGroup
			both.Go(func() { middleware.Charge(r, true) })
			both.Go(func() { w.WriteHeader(http.StatusSeeOther) })
			both.Wait()
		}
	}))
	var tokens sync.Map
	kit.Together(8, func(i int) {
		for n := range 300 {
			tok, _ := tokens.Load(rand.IntN(8))
			text, _ := tok.(string)
			if !echo {
				text = ""
			}
			func() {
				defer func() { _ = recover() }()
				resp := send(h, showing(text))
				require.NotEqual(t, http.StatusTooManyRequests, resp.StatusCode)
				if n%3 == 0 {
					tokens.Store(i, resp.Header.Get(middleware.TokenHeader))
				}
			}()
		}
	})
	require.Equal(t, 1<<30-counted.Load(), failuresLeft(t, m))
}

// What is held is charged when ByOutcome goes: each request counts then, and what counts them knows nothing of what is overdue. A
// charge as of a window that is over would take the counts of the present one along.
func TestOutcomeOfRequestsUnderWayWhenItGoes(t *testing.T) {
	c := new(clock)
	cfg := login(c)
	m := newLimiter(t, cfg)
	came, goes := make(chan struct{}), make(chan struct{})
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Slow") != "" {
			close(came)
			<-goes
		}
		w.WriteHeader(http.StatusOK)
	}))
	c.Advance(55 * time.Second) // what is held is due in the next window
	var slow sync.WaitGroup
	slow.Go(func() { send(h, with("X-Slow", "1")) })
	end := sync.OnceFunc(func() { close(goes); slow.Wait() })
	defer end()
	<-came
	plain := cfg
	plain.ByOutcome = nil
	require.NoError(t, m.Reconfigure(plain))
	require.Equal(t, 4, admitted(h, 10), "one is under way")
	c.Advance(time.Minute)
	require.Equal(t, 5, admitted(h, 10))
	end()
	require.Zero(t, admitted(h, 10), "nothing was counted in the window before")
	require.NoError(t, m.Reconfigure(cfg))
	require.Zero(t, failuresLeft(t, m))
	c.Advance(time.Minute)
	require.EqualValues(t, 5, failuresLeft(t, m))
	require.EqualValues(t, 5, served(t, m, 10, one, passwords), "it holds again")
}

// A request that the old configuration still decides holds nothing either.
func TestOutcomeOfARequestThatIsDecidedWhenItHasGone(t *testing.T) {
	c := new(clock)
	cfg := login(c)
	plain := cfg
	plain.ByOutcome = nil
	var m *middleware.Middleware
	cfg.Identity = func(r *http.Request) (middleware.Identity, error) {
		require.NoError(t, m.Reconfigure(plain))
		return middleware.PeerAddress(r)
	}
	m = newLimiter(t, cfg)
	var h http.Handler
	h = m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Slow") != "" {
			c.Advance(time.Minute)
			require.Equal(t, 5, admitted(h, 10))
		}
		w.WriteHeader(http.StatusOK)
	}))
	send(h, with("X-Slow", "1"))
	require.Zero(t, admitted(h, 10))
}

// The limits that count by outcome are the same in another order: what a request holds is given back.
func TestOutcomeOfTheSameLimitsInAnotherOrder(t *testing.T) {
	cfg := login(new(clock))
	cfg.Limits = []middleware.Limit{{Name: "a", Quota: 1, Window: time.Minute}, {Name: "b", Quota: 1, Window: time.Hour}, {Name: "all", Quota: 9, Window: time.Minute}}
	cfg.ByOutcome = &middleware.ByOutcome{Limits: []string{"a", "b"}, Free: []int{http.StatusOK}}
	named, limits := cfg, cfg
	named.ByOutcome = &middleware.ByOutcome{Limits: []string{"b", "a"}, Free: []int{http.StatusOK}}
	limits.Limits = []middleware.Limit{cfg.Limits[2], cfg.Limits[1], cfg.Limits[0]}
	for name, other := range map[string]middleware.Config{"in ByOutcome": named, "in Limits": limits} {
		m := newLimiter(t, cfg)
		h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			require.NoError(t, m.Reconfigure(other))
			w.WriteHeader(http.StatusOK)
		}))
		require.Equal(t, 2, admitted(h, 2), name)
	}
}

// What is held is charged where other limits count by outcome from now on. In one that has counted it already it would
// count twice, and in one that now counts at once it would have no room.
func TestOutcomeWhereOtherLimitsCountByIt(t *testing.T) {
	for _, attempts := range []int64{5, 9} {
		cfg := login(new(clock))
		cfg.Limits = []middleware.Limit{
			{Name: "attempts", Algorithm: middleware.FixedWindow, Quota: attempts, Window: time.Minute},
			{Name: "failures", Algorithm: middleware.FixedWindow, Quota: 5, Window: time.Minute},
		}
		cfg.ByOutcome = &middleware.ByOutcome{Limits: []string{"failures"}, Free: []int{http.StatusOK}}
		other := cfg
		other.ByOutcome = &middleware.ByOutcome{Limits: []string{"attempts"}, Free: []int{http.StatusNoContent}}
		m := newLimiter(t, cfg)
		var within int
		var h http.Handler
		h = m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Slow") != "" {
				require.NoError(t, m.Reconfigure(other))
				within = admitted(h, 10)
			}
			w.WriteHeader(http.StatusOK)
		}))
		send(h, with("X-Slow", "1"))
		require.Equal(t, 4, within, "one is under way")
	}
}
