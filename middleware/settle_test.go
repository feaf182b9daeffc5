// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/storeless"
)

// leftOf returns what is left of the first limit, by a request that costs nothing.
func leftOf(t testing.TB, m *middleware.Middleware, options ...option) (left int64) {
	t.Helper()
	left = -1
	send(m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		d, _ := middleware.FromContext(r.Context())
		left = d.Limits()[0].Remaining
	})), append(options, costs(0))...)
	return left
}

func TestSettle(t *testing.T) {
	c := new(clock)
	bucket := metered(contact(c), 100)
	bucket.Limits[0].Algorithm = middleware.TokenBucket
	sliding := metered(contact(c), 100)
	sliding.Limits[0].Algorithm = storeless.SlidingWindow
	key := metered(contact(c), 100)
	key.Identity = func(*http.Request) (middleware.Identity, error) {
		return middleware.APIKey("a key with a name that is longer than an address").For("maps"), nil
	}
	narrow := metered(contact(c), 100)
	narrow.Identity = func(r *http.Request) (middleware.Identity, error) {
		id, err := middleware.PeerAddress(r)
		return id.For("a product with a long name"), err
	}
	tiers := metered(contact(c), 5)
	pro := tiers.Limits[0]
	pro.Quota = 100
	tiers.Tiers = map[string][]middleware.Limit{"pro": {pro}}
	tiers.Identity = func(*http.Request) (middleware.Identity, error) {
		id := middleware.Principal("p")
		id.Tier = "pro"
		return id, nil
	}
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
				resp := send(h, append(as, costs(10), settles(4))...)
				require.EqualValues(t, 96, leftOf(t, mw, as...), "what is not used comes back")
				resp = send(h, append(as, costs(10), settles(16), tokenOf(resp))...)
				require.EqualValues(t, 80, leftOf(t, mw, as...), "what is too little is charged")
				resp = send(h, append(as, costs(10), settles(10), tokenOf(resp))...)
				require.EqualValues(t, 70, leftOf(t, mw, as...))
				send(h, append(as, costs(10), settles(0), tokenOf(resp))...)
				require.EqualValues(t, 70, leftOf(t, mw, append(as, tokenOf(resp))...))
				if test.cfg.Exact == nil {
					require.EqualValues(t, 70, leftOf(t, newLimiter(t, test.cfg), append(as, tokenOf(resp))...), "the token says it")
				}
				resp = requireStatus(t, http.StatusOK, send(h, append(as, costs(1), settles(500))...))
				require.EqualValues(t, 0, leftOf(t, mw, as...), "past the limit")
				require.Equal(t, http.StatusTooManyRequests, send(h, append(as, tokenOf(resp))...).StatusCode)
				c.Advance(time.Hour)
				if test.cfg.Exact != nil {
					break // the counter is the same
				}
			}
		})
	}
}

// What is past the limit of a window is not forgotten by the next decision, and weighs on.
func TestSettlePastTheLimitIsOwed(t *testing.T) {
	c := new(clock)
	cfg := metered(contact(c), 10)
	cfg.Limits[0].Algorithm = storeless.SlidingWindow
	mw := newLimiter(t, cfg)
	h := mw.Handler(settling(t, false))
	resp := send(h, settles(40))
	require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
	// 40 in the window before weigh 40·(60−e)/60: 9 of them are left from 46.5 s on.
	c.Advance(time.Minute + 46*time.Second)
	for _, seen := range []option{from("203.0.113.1"), tokenOf(resp)} {
		require.Equal(t, http.StatusTooManyRequests, send(h, seen).StatusCode)
	}
	require.Equal(t, http.StatusTooManyRequests, send(newLimiter(t, cfg).Handler(new(spy)), tokenOf(resp)).StatusCode)
	c.Advance(time.Second)
	require.Equal(t, http.StatusOK, send(h, tokenOf(resp)).StatusCode)
}

// L and what was under-reserved in flight: k requests at once, each estimated at 1 and
// settled at 7, are let in as long as the estimates fit.
func TestSettleAtOnce(t *testing.T) {
	const quota, actual = 10, 7
	mw := newLimiter(t, metered(contact(new(clock)), quota))
	require.EqualValues(t, quota, served(t, mw, 100, one, func(_ http.ResponseWriter, r *http.Request) {
		require.NoError(t, middleware.Settle(r, actual))
	}))
	require.Equal(t, http.StatusTooManyRequests, send(mw.Handler(new(spy))).StatusCode)
}

// After the header, memory alone knows. What was charged the client cannot shake off here;
// what was given back comes to clients that do not show the older token.
func TestSettleAfterTheHeader(t *testing.T) {
	c := new(clock)
	cfg := metered(contact(c), 100)
	mw := newLimiter(t, cfg)
	h := mw.Handler(settling(t, true))
	resp := send(h, costs(10), settles(30))
	require.EqualValues(t, 70, leftOf(t, mw))
	require.EqualValues(t, 70, leftOf(t, mw, tokenOf(resp)))
	require.EqualValues(t, 90, leftOf(t, newLimiter(t, cfg), tokenOf(resp)), "another instance does not know")
	resp = send(h, costs(10), tokenOf(resp))
	require.EqualValues(t, 60, leftOf(t, newLimiter(t, cfg), tokenOf(resp)), "until the next token")
	resp = send(h, costs(10), settles(1))
	require.EqualValues(t, 59, leftOf(t, mw))
	require.EqualValues(t, 50, leftOf(t, mw, tokenOf(resp)))
}

// Without memory the token is all there is.
func TestSettleWithoutMemory(t *testing.T) {
	for name, carry := range map[string]middleware.TokenTransport{"header": middleware.HeaderOnly, "cookie": middleware.CookieOnly} {
		t.Run(name, func(t *testing.T) {
			cfg := metered(contact(new(clock)), 100)
			cfg.InsecureNoMemory, cfg.TokenTransport = true, carry
			mw := newLimiter(t, cfg)
			show := func(resp *http.Response) option {
				if carry == middleware.HeaderOnly {
					return tokenOf(resp)
				}
				return showingCookie(resp.Cookies()[0].Value)
			}
			resp := send(mw.Handler(settling(t, false)), costs(10), settles(4))
			require.EqualValues(t, 96, leftOf(t, mw, show(resp)))
			resp = send(mw.Handler(settling(t, false)), costs(10), settles(50), show(resp))
			require.EqualValues(t, 46, leftOf(t, mw, show(resp)))
		})
	}
}

// An own tally is settled, and its token says so; the shared one is left alone.
func TestSettleAnOwnTally(t *testing.T) {
	c := new(clock)
	cfg := metered(challenging(c, middleware.WhenExhausted), 100)
	s := newSite(t, cfg)
	tok := bought(t, s)
	h := s.M.Handler(settling(t, false))
	resp := send(h, showing(tok), costs(10), settles(30))
	require.EqualValues(t, 70, leftOf(t, s.M, showing(tok)))
	require.Contains(t, resp.Header.Get("RateLimit"), "r=70;")
	require.EqualValues(t, 70, leftOf(t, newLimiter(t, cfg), tokenOf(resp)), "by its token")
	require.EqualValues(t, 100, leftOf(t, s.M))
	resp = send(h, tokenOf(resp), costs(10), settles(0))
	require.EqualValues(t, 70, leftOf(t, newLimiter(t, cfg), tokenOf(resp)))

	// More than the pass has: the shared tally pays, and the token stays that of the own one.
	send(h, showing(tok), costs(1), settles(500))
	shared := requireStatus(t, http.StatusOK, send(h, showing(tok), costs(50), settles(60)))
	require.EqualValues(t, 40, leftOf(t, s.M))
	require.Empty(t, shared.Header.Get(middleware.TokenHeader))
	require.Contains(t, shared.Header.Get("RateLimit"), "r=40;")
}

// TestSettleInTheWaitingRoom: the room's tally is settled, with its networks.
func TestSettleInTheWaitingRoom(t *testing.T) {
	c := new(clock)
	cfg := waiting(c, middleware.Newcomers)
	mw := newLimiter(t, cfg)
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
				cost, _ := strconv.ParseInt(r.Header.Get("X-Cost"), 10, 64)
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
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for range 200 {
						require.Equal(t, 1, admitted(h, 1, costs(1+rand.Int64N(9))))
					}
				})
			}
			all.Wait()
			require.Equal(t, 1<<30-sum.Load(), leftOf(t, mw))
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

// Of a client that is alone, with a crash between any two requests, the token is exact.
func TestSettleOverCrashes(t *testing.T) {
	cfg := metered(contact(new(clock)), 1<<30)
	sum, tok := int64(0), from("203.0.113.1")
	for range 200 {
		mw := newLimiter(t, cfg) // knows nothing
		actual := rand.Int64N(20)
		sum += actual
		resp := send(mw.Handler(settling(t, false)), costs(10), settles(actual), tok)
		tok = tokenOf(resp)
		require.Equal(t, 1<<30-sum, leftOf(t, newLimiter(t, cfg), tok))
	}
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
	})), costs(0))
}

// What is given back to an address is given back to its networks: a hundred neighbours in a
// /56, which has eight times the quota of each.
func TestSettleGivesBackToNetworks(t *testing.T) {
	for name, identity := range map[string]middleware.IdentityFunc{
		"addresses": middleware.PeerAddress,
		"in one thing": func(r *http.Request) (middleware.Identity, error) {
			id, err := middleware.PeerAddress(r)
			return id.For("maps"), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := contact(new(clock))
			cfg.Identity = identity
			h := newLimiter(t, cfg).Handler(settling(t, false))
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

// A token that was bought with the very request stays, where the request was too dear for
// it and the shared tally has paid.
func TestSettleLeavesABoughtTokenAlone(t *testing.T) {
	c := new(clock)
	cfg := metered(challenging(c, middleware.WhenExhausted), 100)
	cfg.Limits[0].Window = 24 * time.Hour
	s := newSite(t, cfg)
	proof := solved(t, fetched(s))
	h := s.M.Handler(settling(t, false))
	resp := requireStatus(t, http.StatusOK, send(h, proving(proof), costs(50), settles(60)))
	require.EqualValues(t, 40, leftOf(t, s.M))
	require.EqualValues(t, 5, leftOf(t, s.M, tokenOf(resp)), "of the pass")
}
