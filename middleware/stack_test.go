// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// stack puts the limiter of a site around a page's.
func stack(t *testing.T, now *clock, between func(http.Handler) http.Handler, handler http.Handler) (site, page *middleware.Middleware, h http.Handler) {
	cfg := contact(now)
	cfg.Policy, cfg.Limits[0].Quota = "site", 7
	site = newLimiter(t, cfg)
	cfg = contact(now)
	cfg.Policy, cfg.Limits[0].Quota = "page", 2
	page = newLimiter(t, cfg)
	return site, page, site.Handler(between(page.Handler(handler)))
}

func plain(h http.Handler) http.Handler { return h }

// Where several middlewares are stacked, each policy has its line in the response, and its cookie,
// whatever the method and whichever handler writes: see TestThreatsOfWriting too.
func TestStackedPolicies(t *testing.T) {
	t.Run("the inner one refuses, and neither has charged", func(t *testing.T) {
		site, _, h := stack(t, new(clock), plain, new(spy))
		require.Equal(t, 2, admitted(h, 2))
		for _, m := range []string{http.MethodGet, http.MethodPost} {
			resp := requireStatus(t, http.StatusTooManyRequests, send(h, method(m)))
			require.Equal(t, []string{`"site";r=5;t=60`, `"page";r=0;t=60`}, resp.Header.Values("RateLimit"))
			require.Len(t, resp.Header.Values("Retry-After"), 1)
			require.Contains(t, bodyOf(t, resp), `["page"]`)
			require.Len(t, resp.Header.Values(middleware.TokenHeader), 1, "that of the outer one")
		}
		require.Equal(t, 5, admitted(site.Handler(new(spy)), 9))
		require.Equal(t, []string{`"site";r=0;t=60`}, send(h).Header.Values("RateLimit"), "and now the outer one refuses")
	})
	t.Run("something in between clears the header", func(t *testing.T) {
		clearing := func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(w, r)
				clear(w.Header())
			})
		}
		_, _, h := stack(t, new(clock), clearing, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		resp := send(h, method(http.MethodGet))
		require.Len(t, resp.Header.Values("RateLimit"), 2)
	})
	t.Run("a timeout in between leaves the inner one behind", func(t *testing.T) {
		slow, release := stuck(plain)
		_, _, h := stack(t, new(clock), timeout, slow)
		resp := send(h, method(http.MethodGet))
		release()
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		require.Contains(t, resp.Header.Values("RateLimit"), `"site";r=6;t=60`)
	})
}

// wrapping has handlers get another writer.
func wrapping(wrap func(http.ResponseWriter) http.ResponseWriter) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(wrap(w), r) })
	}
}

// hidden hides a writer, as many loggers do: it cannot be unwrapped.
func hidden(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	})
}

// TestPoliciesOfAnAddressAndOfAKey: whatever hides the writer of the outer one, and whatever identity each gives the
// client.
func TestPoliciesOfAnAddressAndOfAKey(t *testing.T) {
	for name, between := range map[string]func(http.Handler) http.Handler{
		"nothing between":     plain,
		"a hidden writer":     hidden,
		"a timeout":           func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Hour, "") },
		"a writer that shows": wrapping(func(w http.ResponseWriter) http.ResponseWriter { return unwrapping{w} }),
		"another URL":         func(h http.Handler) http.Handler { return hidden(http.StripPrefix("/", h)) },
	} {
		for _, m := range []string{http.MethodGet, http.MethodPost} {
			for _, key := range []bool{true, false} {
				t.Run(fmt.Sprint(name, m, key), func(t *testing.T) {
					site, page := contact(new(clock)), contact(new(clock))
					site.Policy, page.Policy = "site", "page"
					page.Limits[0].Quota = 1
					if key {
						page.Identity = only(middleware.APIKey("k"))
					}
					h := newLimiter(t, site).Handler(between(newLimiter(t, page).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
						d, _ := middleware.FromContext(r.Context())
						require.Equal(t, "page", d.Policy, "the innermost")
					}))))
					resp := requireStatus(t, http.StatusOK, send(h, method(m)))
					require.Equal(t, []string{`"site";r=4;t=60`, `"page";r=0;t=60`}, resp.Header.Values("RateLimit"))
					require.Equal(t, []string{`"site";q=5;w=60`, `"page";q=1;w=60`}, resp.Header.Values("RateLimit-Policy"))
					require.Len(t, resp.Header.Values(middleware.TokenHeader), 2)
					require.Len(t, resp.Cookies(), 2)
					require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))

					resp = requireStatus(t, http.StatusTooManyRequests, send(h, method(m), showing(resp.Header.Values(middleware.TokenHeader)...)))
					require.Contains(t, resp.Header.Get("RateLimit"), `"site";r=`)
					require.Equal(t, `"page";r=0;t=60`, resp.Header.Values("RateLimit")[1])
					require.Len(t, resp.Header.Values("Retry-After"), 1)
				})
			}
		}
	}
}

// TestPartsOfABatchAreOfTheirClients: a handler serves requests of other clients with the context of the one that asks. What their
// policy says of each is for that one alone, and takes nothing from the one that asks.
func TestPartsOfABatchAreOfTheirClients(t *testing.T) {
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		for _, own := range []bool{true, false} {
			t.Run(fmt.Sprint(m, own), func(t *testing.T) {
				now := new(clock)
				cfg := challenging(now, middleware.WhenExhausted)
				cfg.Policy, cfg.ByOutcome = "part", nil
				part := newLimiter(t, cfg)
				endpoints := part.Endpoints()
				theirs := bought(t, endpoints, from("198.51.100.7"))
				var answers []*http.Response
				batch := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					within := func(sub *http.Request) { *sub = *sub.WithContext(r.Context()) }
					answers = append(answers, send(part.Handler(new(spy)), from("198.51.100.7"), showing(theirs), within),
						send(part.Handler(new(spy)), from("198.51.100.8"), within),
						fetched(endpoints, from("198.51.100.9"), within),
						redeemed(endpoints, solved(t, fetched(endpoints, from("198.51.100.9"))), from("198.51.100.9"), within))
					w.WriteHeader(http.StatusOK)
				}))
				want := []string{`"site";r=6;t=60`}
				if own {
					batch, want = part.Handler(batch), append(want, `"part";r=4;t=60`)
				}
				site := contact(now)
				site.Policy, site.Limits[0].Quota = "site", 7
				resp := send(newLimiter(t, site).Handler(batch), method(m))
				require.Equal(t, want, resp.Header.Values("RateLimit"))
				require.Len(t, resp.Header.Values(middleware.TokenHeader), len(want))
				require.Len(t, resp.Cookies(), len(want))
				for i, tok := range resp.Header.Values(middleware.TokenHeader) {
					require.Empty(t, claimsIn(t, tok).Fam, i)
				}
				for i, answer := range answers {
					require.Equal(t, http.StatusOK, answer.StatusCode, i)
					require.LessOrEqual(t, len(answer.Header.Values(middleware.TokenHeader)), 1, i)
					require.LessOrEqual(t, len(answer.Header.Values("RateLimit")), 1, i)
				}
				require.Contains(t, answers[0].Header.Get("RateLimit"), `"part";r=4`)
			})
		}
	}
}

// TestPartsOfABatchAreNoOutcomeOfIt: what a part of a batch says of its own outcome is not said of the batch.
func TestPartsOfABatchAreNoOutcomeOfIt(t *testing.T) {
	now := new(clock)
	outer, part := newLimiter(t, login(now)), login(now)
	part.Policy = "part"
	parts := newLimiter(t, part).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		middleware.Charge(r, false)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	h := outer.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		send(parts, from("198.51.100.7"), func(sub *http.Request) { *sub = *sub.WithContext(r.Context()) })
		w.WriteHeader(http.StatusUnauthorized)
	}))
	for range 5 {
		requireStatus(t, http.StatusUnauthorized, send(h))
	}
	requireStatus(t, http.StatusTooManyRequests, send(h))
}

// spentPage is a policy that refuses whatever comes to it through the stack: 203.0.113.1 has used it up.
func spentPage(t testing.TB, now *clock, change func(*middleware.Config)) http.Handler {
	cfg := contact(now)
	cfg.Policy, cfg.Limits[0].Quota = "page", 1
	if change != nil {
		change(&cfg)
	}
	h := newLimiter(t, cfg).Handler(new(spy))
	admitted(h, 1)
	return h
}

// TestWhatAnInnerPolicyRefusesIsNotChargedOutside sends three requests that an inner policy refuses, and asks what of five the outer one has
// left: all where the charges came back.
func TestWhatAnInnerPolicyRefusesIsNotChargedOutside(t *testing.T) {
	const all, none = 5, 2
	now := new(clock)
	writing := func(before func(w http.ResponseWriter, r *http.Request)) func(http.Handler) http.Handler {
		return func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				before(w, r)
				h.ServeHTTP(w, r)
			})
		}
	}
	algorithm := func(a storeless.Algorithm) func(*middleware.Config) {
		return func(cfg *middleware.Config) { cfg.Limits[0].Algorithm = a }
	}
	identified := func(id middleware.Identity, err error) func(*middleware.Config) {
		return func(cfg *middleware.Config) {
			cfg.Identity = func(*http.Request) (middleware.Identity, error) { return id, err }
		}
	}
	counted := func(cfg *middleware.Config) { cfg.Exact = counting(memory.New(0, now.Now)) }
	memoryOnly := func(cfg *middleware.Config) { cfg.TokenTransport = middleware.MemoryOnly }
	wantsWork := func(cfg *middleware.Config) { cfg.Challenge = &middleware.Challenge{Mode: middleware.Newcomers} }
	for name, test := range map[string]struct {
		outer, inner func(*middleware.Config)
		between      func(http.Handler) http.Handler
		from         string
		left         int
		logs         string
	}{
		"a fixed window":         {left: all},
		"a sliding window":       {outer: algorithm(storeless.SlidingWindow), left: all},
		"a token bucket":         {outer: algorithm(middleware.TokenBucket), left: all},
		"IPv6, and its networks": {outer: func(cfg *middleware.Config) { cfg.Net56Factor, cfg.Net48Factor = 1, 1 }, from: "2001:db8::1", left: all},
		"no memory":              {outer: func(cfg *middleware.Config) { cfg.InsecureNoMemory = true }, left: all},
		"no tokens":              {outer: memoryOnly, left: all},
		"a shadow limit that would have refused": {outer: func(cfg *middleware.Config) {
			cfg.Limits = append(cfg.Limits, middleware.Limit{Name: "shadow", Quota: 1, Window: time.Hour, Shadow: true})
		}, left: all},
		"where work is for sale": {outer: func(cfg *middleware.Config) {
			cfg.Challenge = &middleware.Challenge{Mode: middleware.WhenExhausted}
		}, left: all},
		"a policy that is busy with it": {outer: func(cfg *middleware.Config) {
			cfg.Challenge = &middleware.Challenge{Mode: middleware.WhenBusy, BusyPerSecond: 1000}
		}, left: none},
		"an exact counter outside":                              {outer: counted, left: none, logs: "code=exact-outside"},
		"an exact counter outside, whose charge was given back": {outer: counted, between: writing(func(w http.ResponseWriter, r *http.Request) { _ = middleware.Refund(w, r) }), left: all},
		"an exact counter outside, in an outage": {outer: func(cfg *middleware.Config) {
			cfg.Exact = counting(&altered{OnTake: notTaken(exact.ErrNotCounted)})
			cfg.Exact.Outage = middleware.FailOpen
		}, left: none, logs: "code=exact-outside"},
		"an exact counter inside, whose refusal is remembered": {inner: counted, left: all},
		"an exact counter inside that is asked each time":      {inner: counted, between: writing(func(http.ResponseWriter, *http.Request) { now.Advance(11 * time.Second) }), left: none},
		"an exact counter inside that is down":                 {inner: func(cfg *middleware.Config) { cfg.Exact = counting(&altered{OnTake: notTaken(exact.ErrNotCounted)}) }, left: none},
		"a cost that can never pass inside":                    {inner: func(cfg *middleware.Config) { cfg.Cost = func(*http.Request) int64 { return 9 } }, left: all},
		"work that is wanted inside":                           {inner: wantsWork, left: all},
		"a proof for each request that is wanted inside":       {inner: func(cfg *middleware.Config) { cfg.Challenge = &middleware.Challenge{Mode: middleware.EveryRequest} }, left: all},
		"credentials that are wrong inside":                    {inner: identified(middleware.Identity{}, &middleware.Denial{}), left: none},
		"a client that cannot be told inside":                  {inner: identified(middleware.Identity{}, nil), left: none},
		"a client that cannot be told now":                     {inner: identified(middleware.Identity{}, middleware.ErrIdentityUnavailable), left: none},
		"a cost that is wrong inside":                          {inner: func(cfg *middleware.Config) { cfg.Cost = func(*http.Request) int64 { return -1 } }, left: none},
		"a policy inside that only tries":                      {inner: func(cfg *middleware.Config) { cfg.Shadow = true }, left: none},
		"another writer in between that can be unwrapped":      {between: wrapping(func(w http.ResponseWriter) http.ResponseWriter { return unwrapping{w} }), left: none},
		"another writer that cannot":                           {between: wrapping(func(w http.ResponseWriter) http.ResponseWriter { return struct{ http.ResponseWriter }{w} }), left: none},
		"a recorder: part of a batch":                          {between: wrapping(func(http.ResponseWriter) http.ResponseWriter { return httptest.NewRecorder() }), left: none},
		"a timeout in between":                                 {between: func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Hour, "") }, left: none},
		"a 103 before":                                         {between: writing(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusEarlyHints) }), left: all},
		"a response that has begun":                            {outer: memoryOnly, between: writing(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }), left: none},
		"a response that was flushed":                          {outer: memoryOnly, between: writing(func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }), left: none},
		"a charge that was settled to what it was":             {between: writing(func(_ http.ResponseWriter, r *http.Request) { _ = middleware.Settle(r, 1) }), left: none},
		"a charge that was given back already":                 {between: writing(func(w http.ResponseWriter, r *http.Request) { _ = middleware.Refund(w, r) }), left: all},
		"a handler that panics after the refusal":              {between: panicking, left: all},
		"a window that ends meanwhile":                         {inner: wantsWork, between: writing(func(http.ResponseWriter, *http.Request) { now.Advance(time.Minute) }), left: all},
		"a window that ends, and weighs on":                    {outer: algorithm(storeless.SlidingWindow), inner: wantsWork, between: writing(func(http.ResponseWriter, *http.Request) { now.Advance(time.Minute) }), left: all},
	} {
		for _, m := range []string{http.MethodGet, http.MethodPost} {
			t.Run(name+", "+m, func(t *testing.T) {
				as := []option{from("203.0.113.1"), method(m)}
				if test.from != "" {
					as[0] = from(test.from)
				}
				cfg := contact(now)
				cfg.Policy = "site"
				if test.outer != nil {
					test.outer(&cfg)
				}
				log := logTo(&cfg)
				outer, between := newLimiter(t, cfg), test.between
				if between == nil {
					between = plain
				}
				inner := spentPage(t, now, test.inner)
				send(inner, as...)
				h := outer.Handler(between(inner))
				tok := ""
				for range 3 {
					resp := send(swallowing(h), append(as, showing(tok))...)
					require.NotNil(t, resp)
					tok = tokenIn(resp)
				}
				require.Equal(t, test.left, admitted(echoing(outer.Handler(new(spy))), 9, append(as, showing(tok))...), "by token and memory")
				require.Contains(t, log.String(), test.logs)
				if test.logs == "" {
					require.Empty(t, log.Lines())
				}
				now.Advance(2*time.Hour - time.Duration(now.Offset.Load())%time.Hour)
			})
		}
	}
}

func panicking(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		panic(http.ErrAbortHandler)
	})
}

// swallowing recovers from a panic.
func swallowing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { _ = recover() }()
		h.ServeHTTP(w, r)
	})
}

// TestRefusedInsideAfterWork: what was bought is kept, and what was spent stays spent.
func TestRefusedInsideAfterWork(t *testing.T) {
	inside, full := with("Inside", "1"), spentPage(t, new(clock), nil)
	page := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Inside") != "" {
			full.ServeHTTP(w, r)
		}
	}
	uses := func(ticket string) step {
		return step{after: 5 * time.Second, as: inside, hold: ticket, want: 429, see: all{func(s *scene) { require.True(s, s.decision().FromWaitingRoom) }}}
	}
	draws := func(ticket string) step { return step{as: html, want: 403, keep: ticket} }
	play(t, []scenario{
		{"a bought tally", working(middleware.Newcomers).serving(page), []step{
			{do: buys("own"), as: inside, show: "own", times: 3, want: 429, fields: fields{"RateLimit": `"contact";r=5, "page";r=0;t=60`}, see: all{own}},
			{show: "own", times: 9, passes: 5},
		}},
		{"a proof that opens a tally keeps its token", working(middleware.Newcomers).serving(page), []step{
			{as: inside, prove: fresh, want: 429, keep: "own"}, {show: "own", times: 9, passes: 5},
		}},
		{"a proof for a request stays spent", working(middleware.EveryRequest).serving(page), []step{
			{as: toFetch, want: 200, keep: "offer"}, {as: inside, prove: "offer", want: 429}, {prove: "offer", want: 403, reason: middleware.ProofReplayed},
			{times: 5, prove: fresh, want: 200}, {as: toFetch, want: 429},
		}},
		{"the waiting room", roomed(middleware.Newcomers).serving(page), []step{
			draws("1"), draws("2"), draws("3"), draws("4"), uses("1"), uses("2"), uses("3"), uses("4"), draws("5"), draws("6"),
			{after: 5 * time.Second, hold: "5", want: 403}, {hold: "6", want: 403}, // a ticket that was used has charged
		}},
	})
}

// TestRefusedInsideOfALogin: what is refused inside was no guess: it is neither counted, nor charged for its status.
func TestRefusedInsideOfALogin(t *testing.T) {
	for _, said := range []string{"nothing", "true", "false"} {
		t.Run(said, func(t *testing.T) {
			now := new(clock)
			outer, inner := newLimiter(t, changed(login(now), func(cfg *middleware.Config) { cfg.Limits[0].Quota = 6 })), spentPage(t, now, nil)
			h := outer.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if said != "nothing" {
					middleware.Charge(r, said == "true")
				}
				inner.ServeHTTP(w, r)
			}))
			for range 3 {
				requireStatus(t, http.StatusTooManyRequests, send(h))
			}
			require.EqualValues(t, 5, failuresLeft(t, outer))
			d := kit.Must(outer.Decide(t.Context(), middleware.Ask{Identity: peerIdentity, DryRun: true}))(t)
			require.EqualValues(t, 5, d.Limits()[0].Remaining, "the one that has asked for failures")
			passed := 0
			for range 9 {
				if send(outer.Handler(http.HandlerFunc(passwords))).StatusCode == http.StatusUnauthorized {
					passed++
				}
			}
			require.Equal(t, 5, passed)
		})
	}
}

// TestThreePolicies: each around the one that refuses gives back what it can.
func TestThreePolicies(t *testing.T) {
	for _, exactly := range []int{-1, 0, 1} {
		t.Run(fmt.Sprint(exactly), func(t *testing.T) {
			now := new(clock)
			var around [2]*middleware.Middleware
			h := spentPage(t, now, nil)
			for i := range around {
				cfg := contact(now)
				cfg.Policy = fmt.Sprint("policy-", i)
				if i == exactly {
					cfg.Exact = counting(memory.New(0, now.Now))
				}
				around[i] = newLimiter(t, cfg)
				h = around[i].Handler(h)
			}
			tokens := []string{}
			for i := range 3 {
				resp := requireStatus(t, http.StatusTooManyRequests, send(h, showing(tokens...)))
				tokens = resp.Header.Values(middleware.TokenHeader)
				if exactly < 0 {
					require.Empty(t, tokens, "nothing is counted")
					require.Equal(t, []string{`"policy-1";r=5`, `"policy-0";r=5`, `"page";r=0;t=60`}, resp.Header.Values("RateLimit"))
				}
				for n, m := range around {
					want := int64(5)
					if n == exactly {
						want -= int64(i + 1)
					}
					require.Equal(t, want, peeked(t, m, peerIdentity).Limits()[0].Remaining, n)
				}
			}
		})
	}
}

// A writer that can be unwrapped may throw away what it was given. A handler that answers a refusal by work of its own,
// through such a one, is charged outside each time.
func TestAFallbackForARefusalIsCharged(t *testing.T) {
	now := new(clock)
	outer, inner := contact(now), contact(now)
	outer.Policy, inner.Policy, inner.Limits[0].Quota = "outer", "inner", 1
	first, fallbacks := newLimiter(t, inner).Handler(new(spy)), 0
	h := newLimiter(t, outer).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buffer := httptest.NewRecorder()
		first.ServeHTTP(buffering{buffer, w}, r)
		if buffer.Code == http.StatusTooManyRequests {
			fallbacks++
			w.WriteHeader(http.StatusOK)
		}
	}))
	require.Equal(t, 5, admitted(h, 50))
	require.Equal(t, 4, fallbacks)
}

// buffering writes to a buffer, and shows the writer below it.
type buffering struct {
	*httptest.ResponseRecorder
	below http.ResponseWriter
}

func (b buffering) Unwrap() http.ResponseWriter { return b.below }
